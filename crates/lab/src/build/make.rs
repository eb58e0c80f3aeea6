// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the kernel's own build, and says how far it is.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::architecture::Architecture;
use crate::build::source::last_line;
use crate::build::tools;
use crate::{Error, Result};

/// How far a build is.
#[derive(Debug, Clone, Copy)]
pub struct BuildProgress {
    /// Steps that are done: files compiled, archived, linked.
    pub done: u64,
    /// All steps, as make itself counted them; 0 where it could not.
    pub of: u64,
    /// Time since the first step.
    pub elapsed: Duration,
}

impl BuildProgress {
    /// The time left if steps go on as they went; `None` while unknown.
    pub fn left(&self) -> Option<Duration> {
        let sure = self.of > 0 && self.done >= 20 && self.elapsed >= Duration::from_secs(5);
        sure.then(|| self.elapsed.mul_f64(self.of.saturating_sub(self.done) as f64 / self.done as f64))
    }
}

/// A kernel tree and the folder that its objects go to.
#[derive(Debug, Clone)]
pub struct KernelTree {
    /// The source.
    pub tree: PathBuf,
    /// The objects: within the source, so that compilers are given relative paths and a cache knows them
    /// again.
    pub objects: PathBuf,
    /// For which processor.
    pub architecture: Architecture,
    /// Variables for make.
    pub variables: Vec<String>,
}

/// The kernel's name of an architecture.
pub fn arch(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::X86_64 => "x86_64",
        Architecture::Aarch64 => "arm64",
    }
}

impl KernelTree {
    fn command(&self, words: &[&str]) -> Command {
        let prefix = tools::prefix(self.architecture);
        let mut make = Command::new("make");
        make.arg("-C").arg(&self.tree).arg(format!("O={}", self.objects.display()));
        make.arg(format!("ARCH={}", arch(self.architecture)));
        if !prefix.is_empty() {
            make.arg(format!("CROSS_COMPILE={prefix}"));
        }
        if tools::has_program("ccache") {
            make.arg(format!("CC=ccache {prefix}gcc"));
        }
        let jobs = std::thread::available_parallelism().map_or(1, |n| n.get());
        make.arg(format!("-j{jobs}")).args(&self.variables).args(words);
        // What a caller's make hands down is not for this one.
        make.env_remove("MAKEFLAGS").env_remove("MFLAGS").env_remove("MAKELEVEL").env("LC_ALL", "C");
        make.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        make
    }

    /// The output of make, run to its end.
    pub fn ask(&self, words: &[&str]) -> Result<String> {
        let output = self.command(words).output().map_err(|e| Error::io("run", Path::new("make"), &e))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(failed(words, &output.stderr))
    }

    /// How many steps these targets take, counted by make without doing them. It ends with an error, since
    /// what is linked is not there; what it has counted by then is all but the last few.
    pub fn count(&self, targets: &[&str]) -> u64 {
        let output = self.command(&[&["-k", "-n"], targets].concat()).output();
        let said =
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        said.matches("echo '  ").count() as u64
    }

    /// Makes the targets, in `of` steps by estimate. The output of make is kept in `log`.
    pub fn run(&self, targets: &[&str], of: u64, log: &Path, step: &dyn Fn(BuildProgress)) -> Result<()> {
        let mut make = self.command(targets).spawn().map_err(|e| Error::io("run", Path::new("make"), &e))?;
        let (out, err) = (make.stdout.take(), make.stderr.take());
        let began = Instant::now();
        let (mut done, mut said) = (0, Vec::new());
        let complaints = std::thread::scope(|threads| {
            let complaints = threads.spawn(move || {
                let mut text = Vec::new();
                err.map(|mut err| err.read_to_end(&mut text));
                text
            });
            for line in out
                .map(BufReader::new)
                .into_iter()
                .flat_map(|out| out.split(b'\n').map_while(|line| line.ok()))
            {
                // `  CC      init/main.o`
                if line.starts_with(b"  ") && line.get(2).is_some_and(u8::is_ascii_uppercase) {
                    done += 1;
                    step(BuildProgress {
                        done,
                        of: if of == 0 { 0 } else { of.max(done) },
                        elapsed: began.elapsed(),
                    });
                }
                said.extend(line);
                said.push(b'\n');
            }
            complaints.join().unwrap_or_default()
        });
        said.extend(&complaints);
        fs::write(log, &said).map_err(|e| Error::io("write", log, &e))?;
        let status = make.wait().map_err(|e| Error::io("wait for", Path::new("make"), &e))?;
        if status.success() {
            return Ok(());
        }
        let mut error = failed(targets, &complaints);
        error.cure = format!("see {}", log.display());
        Err(error)
    }
}

/// The first complaint that says more than that make gave up.
fn failed(words: &[&str], complaints: &[u8]) -> Error {
    let said = String::from_utf8_lossy(complaints).into_owned();
    let telling = |line: &&str| ["error:", "Error:", "***"].iter().any(|sign| line.contains(sign));
    let first = said
        .lines()
        .find(|line| telling(line) && !line.starts_with("make["))
        .or_else(|| said.lines().find(telling));
    let why = first.map_or_else(|| last_line(complaints), |line| line.trim().to_string());
    Error::on("run", format!("make {}", words.join(" ")), why, "look at what the kernel's build needs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_told_when_it_can_be() {
        let at = |done, of, s| BuildProgress { done, of, elapsed: Duration::from_secs(s) }.left();
        assert_eq!(at(100, 300, 60), Some(Duration::from_secs(120)));
        assert_eq!(at(300, 300, 60), Some(Duration::ZERO));
        assert_eq!((at(100, 0, 60), at(10, 300, 60), at(100, 300, 1)), (None, None, None));
    }

    #[test]
    fn the_first_real_complaint_is_told() {
        let said = "a.c: In function 'f':\na.c:3:5: error: 'x' undeclared\nmake[2]: *** [a.o] Error 1\nmake: *** [all] Error 2\n";
        assert_eq!(failed(&["bzImage"], said.as_bytes()).why, "a.c:3:5: error: 'x' undeclared");
        assert_eq!(failed(&["bzImage"], b"make[1]: *** [a] Error 1\n").why, "make[1]: *** [a] Error 1");
    }
}
