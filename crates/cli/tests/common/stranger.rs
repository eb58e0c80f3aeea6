// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that know nothing of being measured.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{installed, skipped, skipped_for_lack_of_root};

/// A program that is not ours, and its end.
pub struct Stranger(pub Child);

impl Stranger {
    pub fn start(program: impl AsRef<Path>, args: &[&str]) -> Stranger {
        let mut command = Command::new(program.as_ref());
        Stranger(command.args(args).stdout(Stdio::null()).spawn().unwrap())
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    pub fn process(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Skips where no program can be followed.
pub fn cannot_follow() -> bool {
    let btf = Path::new("/sys/kernel/btf/vmlinux").exists();
    skipped_for_lack_of_root()
        || skipped(!btf, "it needs a kernel with BTF")
        || skipped(!cause::bpf::is_built_in(), "it needs a build with clang")
        || skipped(!installed("cc"), "it needs cc")
}

/// The program `tests/programs/changes.c`, built into `folder`.
pub fn changes(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/changes.c");
    let program = folder.join("changes");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).args([&program, &source]);
    assert!(cc.status().unwrap().success(), "cc refused changes.c");
    program
}
