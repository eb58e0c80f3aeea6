// SPDX-License-Identifier: MIT OR Apache-2.0
//! One started program of a load, with its output.
#![forbid(unsafe_code)]

use std::io::{PipeReader, Read};
use std::path::Path;
use std::process::Stdio;

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, WaitStatus, kill_process_group};
use untrusted::Scratch;

use crate::figures::HeardFigures;
use crate::part::LoadProgram;
use crate::why;

/// A line of output longer than this is cut: memory stays bounded whatever a program prints.
const LONGEST_LINE: usize = 4096;

/// A started program; its number is its process group's too.
pub struct StartedProgram {
    /// Its order.
    pub part: LoadProgram,
    /// Its process.
    pub pid: u32,
    /// How it ended, if it did.
    pub status: Option<WaitStatus>,
    /// Its reports so far.
    pub heard: HeardFigures,
    output: Option<PipeReader>,
    line: Vec<u8>,
}

impl StartedProgram {
    /// Starts it; what it prints, on both descriptors, comes here.
    pub fn start(
        part: LoadProgram,
        folder: &Scratch,
        cgroup: Option<&Path>,
    ) -> Result<StartedProgram, String> {
        let failed = |e: std::io::Error| format!("cannot start {}: {}", part.name, why(e));
        let (output, input) = std::io::pipe().map_err(failed)?;
        rustix::fs::fcntl_setfl(&output, OFlags::NONBLOCK).map_err(|e| failed(e.into()))?;
        let mut command = part.command(folder, cgroup);
        command.stdin(Stdio::null()).stdout(input.try_clone().map_err(failed)?).stderr(input);
        // Waited for by number, together with the orphans that come to the supervisor.
        let pid = command.spawn().map_err(failed)?.id();
        Ok(StartedProgram {
            part,
            pid,
            status: None,
            heard: HeardFigures::default(),
            output: Some(output),
            line: Vec::new(),
        })
    }

    /// Where its output can be waited for.
    pub fn output(&self) -> Option<&PipeReader> {
        self.output.as_ref()
    }

    /// Takes in what it printed since.
    pub fn hear(&mut self) {
        let mut bytes = [0; 4096];
        while let Some(output) = &mut self.output {
            match output.read(&mut bytes) {
                Ok(0) => self.output = None,
                Ok(count) => self.take(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == b'\n' {
                let line = String::from_utf8_lossy(&self.line).into_owned();
                self.heard.line(&self.part.source, &line);
                self.line.clear();
            } else if self.line.len() < LONGEST_LINE {
                self.line.push(*byte);
            }
        }
    }

    /// Asks its whole process group to end.
    pub fn terminate(&self) {
        if let (None, Some(group)) = (self.status, Pid::from_raw(self.pid as i32)) {
            // It may have ended in this moment.
            let _ = kill_process_group(group, Signal::TERM);
        }
    }

    /// Its work: `fio: 1.2 GB read`.
    pub fn describe(&self) -> Option<String> {
        let words = self.heard.describe(&self.part.source);
        (!words.is_empty()).then(|| format!("{}: {words}", self.part.name))
    }
}
