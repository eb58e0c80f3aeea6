// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of user memory that other CPUs must learn of (x86: a TLB shootdown to every CPU that runs a thread
//! of the same memory; arm64: broadcast by the hardware). *own*: in the memory of the measuring program;
//! *other*: in that of another one, which never ran on the isolated CPU.

use std::time::Duration;

use crate::guest::storm::{Context, Storm, StormKind};
use crate::guest::{Result, sys};

const fn kind(
    name: &'static str,
    about: &'static str,
    rounds: u64,
    ready: fn(&mut Context) -> Result<Box<dyn Storm>>,
) -> StormKind {
    let pace = Duration::from_millis(2500 / rounds);
    StormKind { name, about, rounds, pace, ready, ..StormKind::USUAL }
}

pub const MPROTECT_OWN: StormKind =
    kind("mprotect-own", "the measuring program's other thread takes write access from pages", 50, protect);
pub const MPROTECT_OTHER: StormKind =
    kind("mprotect-other", "another program takes write access from its pages", 50, protect);
pub const MUNMAP_OWN: StormKind =
    kind("munmap-own", "the measuring program's other thread unmaps pages", 50, unmap);
pub const MUNMAP_OTHER: StormKind = kind("munmap-other", "another program unmaps its pages", 50, unmap);
pub const FORK_OWN: StormKind =
    kind("fork-own", "the measuring program's other thread makes children", 10, fork);
pub const FORK_OTHER: StormKind = kind("fork-other", "another program makes children", 20, fork);

/// Pages that change at a time.
const PAGES: usize = 16;

fn protect(_: &mut Context) -> Result<Box<dyn Storm>> {
    Ok(Box::new(Protect(sys::Pages::map(PAGES * 4096)?)))
}

fn unmap(_: &mut Context) -> Result<Box<dyn Storm>> {
    Ok(Box::new(Unmap))
}

fn fork(_: &mut Context) -> Result<Box<dyn Storm>> {
    Ok(Box::new(Fork))
}

struct Protect(sys::Pages);

impl Storm for Protect {
    fn round(&mut self, _: &mut Context) -> Result<()> {
        self.0.set_writable(false)?;
        self.0.set_writable(true)?;
        // Only what is mapped as writable must be forgotten by others when it becomes read-only.
        self.0.write();
        Ok(())
    }

    fn end(&mut self, rounds: u64) -> Result<String> {
        Ok(format!("{PAGES} pages made read-only and writable again {rounds} times"))
    }
}

struct Unmap;

impl Storm for Unmap {
    fn round(&mut self, _: &mut Context) -> Result<()> {
        if sys::Pages::map(PAGES * 4096)?.unmap()? {
            return Ok(());
        }
        Err("pages are still there after they were unmapped".into())
    }

    fn end(&mut self, rounds: u64) -> Result<String> {
        Ok(format!("{PAGES} pages mapped, written, unmapped and seen gone {rounds} times"))
    }
}

struct Fork;

/// A child's exit status, to know it by.
const STATUS: i32 = 42;

impl Storm for Fork {
    fn round(&mut self, _: &mut Context) -> Result<()> {
        match sys::fork(STATUS)? {
            STATUS => Ok(()),
            other => Err(format!("a child ended with {other}").into()),
        }
    }

    fn end(&mut self, rounds: u64) -> Result<String> {
        Ok(format!("{rounds} children made, which ended at once"))
    }
}
