// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file in memory without a name, which this program and an emulator share.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::{Error, Result};

/// A file that an emulator opens by its path and this program reads afterwards.
#[derive(Debug)]
pub struct SharedFile(pub(crate) File);

impl SharedFile {
    pub(crate) fn make(name: &str) -> io::Result<SharedFile> {
        Ok(SharedFile(memfd_create(name, MemfdFlags::CLOEXEC)?.into()))
    }

    /// One that holds so many zeros.
    pub fn sized(name: &str, bytes: u64) -> Result<SharedFile> {
        let file = SharedFile::make(name).map_err(wrong)?;
        file.0.set_len(bytes).map_err(wrong)?;
        Ok(file)
    }

    /// The file behind another handle.
    pub fn of(file: File) -> SharedFile {
        SharedFile(file)
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

pub(crate) fn wrong(why: io::Error) -> Error {
    Error::io("write", Path::new("a file in memory"), &why)
}
