// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that know nothing of being measured.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use aya::Pod;
use aya::maps::{HashMap, Map, MapData};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

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

/// Cycles of `row`: with a sample, and of its missed periods.
pub fn cycles(row: &Value) -> u64 {
    row["count"].as_u64().unwrap() + row["missed"].as_u64().unwrap()
}

/// Cycles that the rows say they did not see: on a busy machine the reader may come too late for some.
pub fn unseen(document: &Value) -> u64 {
    let reasons =
        document["taints"].as_array().unwrap().iter().map(|taint| taint["reason"].as_str().unwrap());
    let unseen = reasons.filter_map(|reason| reason.split_once(" not seen, ")?.0.split(' ').next());
    unseen.map(|number| number.replace(',', "").parse::<u64>().unwrap()).sum()
}

/// Whether `row` accounts for about `all` cycles, with those that it did not see.
pub fn accounts_for(document: &Value, row: &Value, all: u64) -> bool {
    const ABOUT: u64 = 20;
    let seen = cycles(row);
    seen < all + ABOUT && seen + unseen(document) + ABOUT > all
}

/// The program `tests/programs/changes.c`, built into `folder`.
pub fn changes(folder: &Path) -> PathBuf {
    built("changes", folder)
}

/// A program of `tests/programs`, built into `folder`.
pub fn built(name: &str, folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let program = folder.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).args([&program, &source]);
    assert!(cc.status().unwrap().success(), "cc refused {name}.c");
    program
}

/// The numbers of what a process holds in the kernel, by a line of its descriptors.
fn held(process: u32, begin: &str) -> BTreeSet<u32> {
    let folder = format!("/proc/{process}/fdinfo");
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    let number = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix(begin).map(str::trim))?.to_string();
        line.parse().ok()
    };
    texts.filter_map(number).collect()
}

/// The numbers of the programs in the kernel that a process holds.
pub fn bpf_programs(process: u32) -> BTreeSet<u32> {
    held(process, "prog_id:")
}

/// Those of every process.
pub fn all_bpf_programs() -> BTreeSet<u32> {
    aya::programs::loaded_programs().filter_map(|program| program.ok().map(|info| info.id())).collect()
}

/// Whether a process holds a map of that name, with values of that type, which has that key.
pub fn has_in_map<V: Pod>(process: u32, name: &str, key: u32) -> bool {
    held(process, "map_id:").into_iter().any(|number| {
        let map = MapData::from_id(number)
            .ok()
            .filter(|map| map.info().is_ok_and(|info| info.name_as_str() == Some(name)));
        let map = map.and_then(|map| Map::from_map_data(map).ok());
        let map = map.and_then(|map| HashMap::<MapData, u32, V>::try_from(map).ok());
        map.is_some_and(|map| map.get(&key, 0).is_ok())
    })
}
