// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles a program, runs it until it has printed its position, and reads its process.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use symbols::{ProcessCode, UserRegisters};

/// A program that waits for a line.
pub struct Program {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    /// The process, opened before the program printed anything.
    pub process: ProcessCode,
    /// The program's output since.
    pub truth: Truth,
}

/// The output of a program: see `programs/capture.h`.
#[derive(Debug, Default)]
pub struct Truth {
    pub registers: UserRegisters,
    pub stack: Vec<u8>,
    pub returns: Vec<u64>,
    pub line: u32,
    pub data: Vec<(String, u64)>,
    pub heap: u64,
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A source file of `tests/programs`.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// The programs that this process has compiled.
static COMPILED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Compiles a program, once; `None`, with the reason printed, where there is no such compiler.
pub fn compile(compiler: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}{}", flags.concat()));
    let output = folder.join("program");
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if compiled.contains(&output) {
        return Some(output);
    }
    std::fs::create_dir_all(&folder).expect("Cargo's folder for tests can be written to");
    // Another process may run the old file: replace it by a rename.
    let new = folder.join(std::process::id().to_string());
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-pthread", "-rdynamic", "-o"]).arg(&new);
    let Ok(built) = command.arg(source(name)).args(flags).arg("-ldl").output() else {
        println!("skipped: it needs {compiler}");
        return None;
    };
    let text = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{compiler} {name} {flags:?}: {text}");
    std::fs::rename(&new, &output).expect("a file can be renamed within its folder");
    compiled.insert(output.clone());
    Some(output)
}

/// Runs a program until it has printed its position; calls `meanwhile` after its process was opened.
pub fn run(command: &mut Command, meanwhile: impl FnOnce()) -> Program {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output is a pipe"));
    read_until("started", &mut lines);
    let process = ProcessCode::open(child.id()).expect("its memory map can be read");
    meanwhile();
    let mut program = Program { child, lines, process, truth: Truth::default() };
    program.go_on();
    for line in read_until("ready", &mut program.lines) {
        program.truth.add(&line);
    }
    program
}

fn read_until(state: &str, lines: &mut impl BufRead) -> Vec<String> {
    let lines = lines.lines().map(|line| line.expect("it writes text"));
    let before: Vec<String> = lines.take_while(|line| line != state).collect();
    before
}

impl Program {
    fn go_on(&mut self) {
        let input = self.child.stdin.as_mut().expect("its input is a pipe");
        input.write_all(b"\n").expect("it waits for a line");
    }

    /// Lets it end.
    pub fn end(&mut self) {
        self.go_on();
        self.child.wait().expect("it is this process' child");
    }

    /// The call stack by address.
    pub fn unwound(&mut self) -> Vec<u64> {
        self.process.unwind(&self.truth.registers, &self.truth.stack)
    }

    /// The functions of the call stack, up to `last`.
    pub fn functions(&mut self, last: &str) -> Vec<String> {
        let mut functions = Vec::new();
        for address in self.unwound() {
            let frame = self.process.frame(address).expect("something lies there");
            let is_last = frame.function.as_deref() == Some(last);
            functions.push(frame.function.unwrap_or_else(|| format!("{}!", frame.binary)));
            if is_last {
                break;
            }
        }
        functions
    }
}

impl Truth {
    fn add(&mut self, line: &str) {
        let hex = |text: &str| u64::from_str_radix(text, 16).expect("a number");
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["ip", value] => self.registers.ip = hex(value),
            ["sp", value] => self.registers.sp = hex(value),
            ["bp", value] => self.registers.bp = hex(value),
            ["lr", value] => self.registers.lr = hex(value),
            ["stack", bytes] => {
                let bytes = bytes.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("digits"));
                self.stack = bytes.map(|pair| hex(pair) as u8).collect();
            }
            ["return", value] => self.returns.push(hex(value)),
            ["line", value] => self.line = value.parse().expect("a line"),
            ["data", name, value] => self.data.push((name.to_string(), hex(value))),
            ["heap", value] => self.heap = hex(value),
            _ => {}
        }
    }
}
