// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program of its own in a guest, such as a selftest of the kernel: what it prints appears on the console
//! at once, so that one that hangs has said how far it came, and leaves the guest as a frame.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::guest::{Result, measure, send};
use crate::job::{ForeignProgram, PROGRAM};

/// Runs it to its end.
pub fn run(task: &ForeignProgram, port: &mut File) -> Result<()> {
    let mut child = Command::new(PROGRAM)
        .args(&task.arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|why| format!("cannot run it: {why}"))?;
    let out = child.stdout.take().map(BufReader::new);
    let said = std::thread::spawn(move || echo(out.into_iter().flat_map(|out| out.split(b'\n'))));
    let status = child.wait()?;
    // What it left running would keep its output open.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let output = said.join().map_err(|_| "cannot read what it printed: the thread panicked")??;
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(-1);
    send(port, "output", output.as_bytes())?;
    send(port, "kernel-log", measure::kernel_log()?.as_bytes())?;
    send(port, "status", code.to_string().as_bytes())
}

/// Says lines again on the console; all of them.
fn echo(lines: impl Iterator<Item = io::Result<Vec<u8>>>) -> io::Result<String> {
    let mut output = String::new();
    for line in lines {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        output += &line;
        output.push('\n');
    }
    Ok(output)
}
