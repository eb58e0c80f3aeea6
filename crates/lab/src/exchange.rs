// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that this program and an emulator exchange: in memory, without a name. Nothing of them is left
//! behind, however either of the two ends.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};

use rustix::io::{FdFlags, fcntl_setfd};

use crate::edges::{self, EdgeGenerator, Sockets};
use crate::shared::{SharedFile, wrong};
use crate::{Error, Result, disk, signal};

/// The files of one guest.
#[derive(Debug)]
pub struct GuestFiles {
    /// The guest's initramfs.
    pub initramfs: SharedFile,
    /// The text on its console.
    pub console: SharedFile,
    /// The frames that it sends through its port.
    pub frames: SharedFile,
    /// The scope's record.
    pub scope: SharedFile,
    /// The emulator's own words.
    pub errors: SharedFile,
    /// Its scratch disk, where it has one.
    pub disk: Option<SharedFile>,
    /// Through which edges reach its lines, if they are driven.
    pub edges: Option<Sockets>,
    /// The memory through which edges reach it, if they come that way.
    pub signal: Option<SharedFile>,
}

impl GuestFiles {
    /// Files for a guest with this initramfs.
    pub fn new(initramfs: &[u8]) -> Result<GuestFiles> {
        let make = |name: &str| SharedFile::make(name).map_err(wrong);
        let files = GuestFiles {
            initramfs: make("initramfs")?,
            console: make("console")?,
            frames: make("frames")?,
            scope: make("scope")?,
            errors: make("errors")?,
            disk: None,
            edges: None,
            signal: None,
        };
        (&files.initramfs.0).write_all(initramfs).map_err(wrong)?;
        Ok(files)
    }

    /// The same with a scratch disk, which holds an empty file system.
    pub fn with_disk(mut self) -> Result<GuestFiles> {
        let disk = SharedFile::sized("disk", disk::BYTES)?;
        let disk = self.disk.insert(disk).path();
        disk::format(&disk, |command| self.spawn(command))?;
        Ok(self)
    }

    /// Adds what edges are driven through: the emulator's ends here, the generator to run.
    pub fn with_edges(&mut self) -> Result<EdgeGenerator> {
        let pairs = edges::sockets().map_err(|e| Error::io("make", Path::new("a pair of sockets"), &e));
        let (own, theirs) = pairs?;
        self.edges = Some(theirs);
        Ok(own)
    }

    /// Adds memory that edges are given through; another handle of it is for the generator.
    pub fn with_signal(&mut self) -> Result<SharedFile> {
        let memory = self.signal.insert(signal::memory()?);
        Ok(SharedFile::of(memory.output()?))
    }

    /// Starts a program that finds the files by their paths.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        // Only this child shall inherit them, not one that another thread starts meanwhile.
        static STARTING: Mutex<()> = Mutex::new(());
        let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        self.inherited(FdFlags::empty())?;
        let child = command.spawn();
        self.inherited(FdFlags::CLOEXEC)?;
        child
    }

    fn inherited(&self, flags: FdFlags) -> io::Result<()> {
        let files = [&self.initramfs, &self.console, &self.frames, &self.scope, &self.errors];
        for file in files.into_iter().chain(&self.disk).chain(&self.signal) {
            fcntl_setfd(&file.0, flags)?;
        }
        for socket in self.edges.iter().flat_map(Sockets::inherited) {
            fcntl_setfd(socket, flags)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_finds_the_files_by_their_paths_and_what_it_writes_is_read() {
        let files = GuestFiles::new(b"root").unwrap();
        let script = format!("cat {} > {}", files.initramfs.path(), files.console.path());
        let mut child = files.spawn(Command::new("sh").args(["-c", &script])).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(files.console.text().unwrap(), "root");
        assert_eq!(files.frames.bytes().unwrap(), b"");
    }
}
