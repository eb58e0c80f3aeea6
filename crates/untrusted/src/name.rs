// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that cannot be foreseen, so that no other user has made something under them.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind};

use rustix::io::Errno;

/// A number that cannot be foreseen: seeded by the system for each process, and counted up for each call.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Tries random numbers until one makes something new.
pub(crate) fn new_name<T>(make: impl Fn(u64) -> rustix::io::Result<T>) -> io::Result<T> {
    for _ in 0..16 {
        match make(random()) {
            Err(Errno::EXIST) => {}
            made => return Ok(made?),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}
