// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rings in C++ (`peers.cpp`): a program beside this one, which does the same batches when it is told to.

use std::error::Error;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::batch::{Batch, IN_A_ROW, Pair, STREAM, TRIPS, WARM_UP};

/// The program.
pub struct Peers {
    child: Child,
    commands: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    contenders: Vec<(usize, String)>,
}

impl Peers {
    /// Compiles and starts it.
    pub fn start(cpus: Pair, scratch: &Path) -> Result<Peers, Box<dyn Error>> {
        let program = scratch.join("peers");
        let mut compiler = Command::new("c++");
        compiler.args(["-O3", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&program);
        if !compiler.arg("crates/proof/src/bench/messages/peers.cpp").status()?.success() {
            return Err(
                "cannot compile crates/proof/src/bench/messages/peers.cpp; it needs a C++ compiler and Boost"
                    .into(),
            );
        }
        let numbers =
            [u64::from(cpus[0]), cpus[1].into(), WARM_UP as u64, TRIPS as u64, STREAM, IN_A_ROW as u64];
        let mut command = Command::new(program);
        command.args(numbers.map(|number| number.to_string())).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let commands = child.stdin.take().ok_or("no standard input")?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no standard output")?).lines();
        let mut contenders = Vec::new();
        for line in lines.by_ref() {
            let line = line?;
            let Some((bytes, name)) = line.split_once(' ') else { break };
            contenders.push((bytes.parse()?, name.to_string()));
        }
        Ok(Peers { child, commands, lines, contenders })
    }

    /// Bytes of a message, and names.
    pub fn contenders(&self) -> &[(usize, String)] {
        &self.contenders
    }

    /// A batch of one of them.
    pub(super) fn batch(&mut self, contender: usize) -> Result<Batch, Box<dyn Error>> {
        writeln!(self.commands, "{contender}")?;
        let line = self.lines.next().ok_or("the rings in C++ ended early")??;
        let numbers = line.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
        let [in_a_row, p999, stream_ns] = numbers[..] else {
            return Err(format!("peers said '{line}'").into());
        };
        Ok(Batch { in_a_row, p999, stream: Duration::from_nanos(stream_ns) })
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
