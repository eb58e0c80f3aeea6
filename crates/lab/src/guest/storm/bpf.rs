// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs loaded into the kernel: a classic socket filter becomes machine code of its own, for which pages
//! change their permissions, and older programs are freed meanwhile.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rand::RngExt;

use crate::guest::storm::{Context, Storm, StormKind};
use crate::guest::{Result, sys};

pub const BPF: StormKind = StormKind {
    name: "bpf",
    about: "loads socket filters, each in place of the one before, and has each filter a datagram",
    rounds: 25,
    pace: Duration::from_millis(100),
    ready: |_| Ok(Box::new(SocketFilters { sockets: UnixDatagram::pair()?, loaded: 0 })),
    ..StormKind::USUAL
};

/// The longest filter in instructions (BPF_MAXINSNS).
const LONGEST: usize = 4096;

struct SocketFilters {
    sockets: (UnixDatagram, UnixDatagram),
    loaded: u64,
}

/// A filter of that many instructions, which lets so many bytes of a datagram through.
fn filter(instructions: usize, bytes: u32) -> Vec<libc::sock_filter> {
    const LOAD: u16 = 0;
    const RETURN: u16 = 6;
    let instruction = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    // Constants that differ: equal programs could be one.
    let mut program = (1..instructions as u32).map(|n| instruction(LOAD, n)).collect::<Vec<_>>();
    program.push(instruction(RETURN, bytes));
    program
}

impl Storm for SocketFilters {
    fn round(&mut self, context: &mut Context) -> Result<()> {
        let (to, from) = &self.sockets;
        let (length, bytes) = (context.random.random_range(16..=LONGEST), context.random.random_range(1..64));
        sys::attach_filter(to, &mut filter(length, bytes))?;
        from.send(&[0; 64])?;
        let mut received = [0; 64];
        let passed = to.recv(&mut received)?;
        if passed != bytes as usize {
            return Err(format!("the filter for {bytes} bytes let {passed} through").into());
        }
        self.loaded += 1;
        Ok(())
    }

    fn end(&mut self, _: u64) -> Result<String> {
        let jit = match fs::read_to_string("/proc/sys/net/core/bpf_jit_enable")?.trim() {
            "0" => "interpreted",
            _ => "compiled by the kernel",
        };
        Ok(format!("{} socket filters loaded, {jit}, and each seen to filter", self.loaded))
    }
}
