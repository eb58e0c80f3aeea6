// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this program and an emulator exchange: files in memory without a name. Nothing of them is left behind, however
//! either of the two ends.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::edges::{self, Generator, Sockets};
use crate::{Error, Result, disk, signal};

/// The files of one guest.
#[derive(Debug)]
pub struct Exchange {
    /// What the guest boots with.
    pub initramfs: Shared,
    /// What is on its console.
    pub console: Shared,
    /// What it sends through its port.
    pub frames: Shared,
    /// The scope's record.
    pub scope: Shared,
    /// The emulator's own words.
    pub errors: Shared,
    /// Its scratch disk, where it has one.
    pub disk: Option<Shared>,
    /// Through which edges reach its lines, where somebody drives them.
    pub edges: Option<Sockets>,
    /// The memory through which edges reach it, where somebody gives them that way.
    pub signal: Option<Shared>,
}

impl Exchange {
    /// Files for a guest with this initramfs.
    pub fn new(initramfs: &[u8]) -> Result<Exchange> {
        let make = |name: &str| Shared::make(name).map_err(wrong);
        let files = Exchange {
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
    pub fn with_disk(mut self) -> Result<Exchange> {
        let disk = Shared::sized("disk", disk::BYTES)?;
        let disk = self.disk.insert(disk).path();
        disk::format(&self, &disk)?;
        Ok(self)
    }

    /// Adds what edges are driven through: the emulator's ends here, the generator to run.
    pub fn with_edges(&mut self) -> Result<Generator> {
        let pairs = edges::sockets().map_err(|e| Error::io("make", Path::new("a pair of sockets"), &e));
        let (own, theirs) = pairs?;
        self.edges = Some(theirs);
        Ok(own)
    }

    /// Adds memory that edges are given through; another handle of it is for the generator.
    pub fn with_signal(&mut self) -> Result<Shared> {
        let memory = self.signal.insert(signal::memory()?);
        Ok(Shared(memory.output()?))
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

/// A file that an emulator opens by its path and this program reads afterwards.
#[derive(Debug)]
pub struct Shared(File);

fn wrong(why: io::Error) -> Error {
    Error::io("write", Path::new("a file in memory"), &why)
}

impl Shared {
    fn make(name: &str) -> io::Result<Shared> {
        Ok(Shared(memfd_create(name, MemfdFlags::CLOEXEC)?.into()))
    }

    /// One that holds so many zeros.
    pub fn sized(name: &str, bytes: u64) -> Result<Shared> {
        let file = Shared::make(name).map_err(wrong)?;
        file.0.set_len(bytes).map_err(wrong)?;
        Ok(file)
    }

    /// The file behind another handle.
    pub fn of(file: File) -> Shared {
        Shared(file)
    }

    /// Its path in the program that inherited it.
    pub fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }

    /// Its path in any program of the same user, as long as this one has it.
    pub fn path_here(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Another handle of it, as an output of a child.
    pub fn output(&self) -> Result<File> {
        self.0.try_clone().map_err(|e| Error::io("share", Path::new("a file in memory"), &e))
    }

    /// All that is in it.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut file = &self.0;
        let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
        read.map_err(|e| Error::io("read", Path::new("a file in memory"), &e))?;
        Ok(bytes)
    }

    /// The same as text.
    pub fn text(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes()?).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_finds_the_files_by_their_paths_and_what_it_writes_is_read() {
        let files = Exchange::new(b"root").unwrap();
        let script = format!("cat {} > {}", files.initramfs.path(), files.console.path());
        let mut child = files.spawn(Command::new("sh").args(["-c", &script])).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(files.console.text().unwrap(), "root");
        assert_eq!(files.frames.bytes().unwrap(), b"");
    }
}
