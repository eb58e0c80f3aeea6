// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts that only the running machine has, since no file does. All of it is looked at, nothing is set.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};

use rustix::fs::OFlags;

/// Most records of the kernel's log that are read.
const RECORDS: usize = 50_000;

/// Whether we are root.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Resolution of CLOCK_MONOTONIC.
pub(super) fn clock_resolution_ns() -> Option<u64> {
    let resolution = rustix::time::clock_getres(rustix::time::ClockId::Monotonic);
    u64::try_from(resolution.tv_sec)
        .ok()?
        .checked_mul(1_000_000_000)?
        .checked_add(u64::try_from(resolution.tv_nsec).ok()?)
}

/// The effective limit on wakeup latency in µs. Opening the file asks for no limit of our own
/// (`cpu_latency_qos_open`, kernel/power/qos.c), and reading it gives the limit that holds, as 32 bits.
pub(super) fn dma_latency_us() -> std::io::Result<i32> {
    let mut bytes = [0; 4];
    untrusted::open("/dev/cpu_dma_latency")?.read_exact(&mut bytes)?;
    Ok(i32::from_ne_bytes(bytes))
}

/// The kernel's log, record by record, `(text, its number)`.
pub(super) fn kernel_log(mut each: impl FnMut(&str, u64)) -> std::io::Result<()> {
    let nonblock = OFlags::NONBLOCK.bits() as i32;
    let mut kmsg = OpenOptions::new().read(true).custom_flags(nonblock).open("/dev/kmsg")?;
    // A shorter buffer than a record is an error.
    let mut buffer = vec![0; 16 << 10];
    for _ in 0..RECORDS {
        match kmsg.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                let record = String::from_utf8_lossy(&buffer[..length]);
                // "priority,number,microseconds,flags;text", then lines of fields that begin with a space.
                let Some((head, text)) = record.split_once(';') else { continue };
                let number =
                    head.split(',').nth(1).and_then(|number| number.parse().ok()).unwrap_or(u64::MAX);
                each(text.lines().next().unwrap_or_default(), number);
            }
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The output of a program, without asking anything of the terminal; `None` where it is not there or fails.
pub(super) fn output_of(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
