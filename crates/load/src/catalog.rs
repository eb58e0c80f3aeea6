// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which loads there are: names, sources, what they need; and the syntax of `--loads`.

use std::fmt;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::gpu::{self, GpuWork};
use crate::{LoadError, find_program};

/// One load, as asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Load {
    /// Nothing runs: what every other row is compared with.
    Idle,
    /// Arithmetic on every housekeeping CPU.
    Cpu,
    /// Writing and flushing files.
    Io,
    /// Writing and checking memory.
    Memory,
    /// Arithmetic and forking.
    System,
    /// CPU, I/O and memory together.
    L2,
    /// Random reads and writes on a disk.
    Storage,
    /// UDP and TCP over the loopback interface.
    Net,
    /// Many short timers.
    Timers,
    /// Interrupts sent from CPU to CPU.
    Ipi,
    /// An EtherCAT MainDevice.
    Ethercat,
    /// Rendering or computing; by the given command where there is one.
    Gpu(Option<String>),
    /// A command for `sh -c`.
    Custom(String),
}

/// The catalog's entry of a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Entry")]
pub struct CatalogEntry {
    /// The name to ask for it.
    pub name: &'static str,
    /// Its purpose, in one line.
    pub about: &'static str,
    /// Its source.
    pub source: &'static str,
    /// Debian packages that it needs.
    pub packages: &'static [&'static str],
    /// The additional data with root permissions, if any.
    pub root_helps: Option<&'static str>,
    /// The reason why it cannot run here, with the cure, `package fio missing; apt-get install fio`; absent:
    /// it can.
    pub not_available: Option<String>,
}

const ORIN: &str = "\"Is PREEMPT_RT Enough?\" (Jetson Orin)";
const CNC: &str = "latency tuning for LinuxCNC";
const ETHERCAT: &str = "ethercrab, \"distributed clocks\"";
const KERNEL: &str = "kernel documentation, kernel-per-CPU-kthreads and isolation";

struct CatalogRow {
    load: Load,
    about: &'static str,
    source: &'static str,
    packages: &'static [&'static str],
    root_helps: Option<&'static str>,
}

#[rustfmt::skip]
fn rows() -> Vec<CatalogRow> {
    let row = |load, about, source, packages| CatalogRow { load, about, source, packages, root_helps: None };
    let stress: &[&str] = &["stress-ng"];
    vec![
        row(Load::Idle, "nothing runs", ORIN, &[]),
        row(Load::Cpu, "stress-ng: arithmetic on every housekeeping CPU", ORIN, stress),
        row(Load::Io, "stress-ng: writes scratch files and flushes them all the time", ORIN, stress),
        row(Load::Memory, "stress-ng: writes and checks memory, at most a quarter of what is available", ORIN, stress),
        row(Load::System, "stress-ng: arithmetic and forking on every housekeeping CPU", CNC, stress),
        row(Load::L2, "stress-ng: CPU, I/O and memory together", ORIN, stress),
        row(Load::Storage, "fio: random reads and writes of 4 KiB on a scratch file, past the page cache where it can", ORIN, &["fio"]),
        row(Load::Net, "own engine: UDP packets and TCP streams over 127.0.0.1, at most 400 MB/s", ORIN, &[]),
        row(Load::Timers, "own engine: 16 threads for each housekeeping CPU that sleep 50 to 150 us", KERNEL, &[]),
        CatalogRow {
            root_helps: Some("reads a perf event on each measured CPU too: one function call per read"),
            ..row(Load::Ipi, "own engine: patches kernel text, makes shootdowns and barriers; counts what arrives", KERNEL, &[])
        },
        CatalogRow {
            root_helps: Some("it needs root: a network namespace, or raw frames on --device"),
            ..row(Load::Ethercat, "own engine: an EtherCAT MainDevice at 1 kHz with distributed clocks, on --device or with a simulated segment", ETHERCAT, &["iproute2"])
        },
        row(Load::Gpu(None), "glmark2, vkmark or glxgears on DISPLAY; else clpeak or vkpeak on a device; else rendering in Xvfb; gpu=COMMAND runs that", ORIN, &["mesa-utils", "xvfb"]),
        row(Load::Custom(String::new()), "custom=COMMAND: runs it with sh -c; takes the rest of the list", "given", &[]),
    ]
}

/// All loads, in the order they are shown and run.
pub fn catalog() -> Vec<CatalogEntry> {
    let entry = |row: CatalogRow| CatalogEntry {
        name: row.load.name(),
        not_available: missing(&row.load).map(|(reason, cure)| format!("{reason}; {cure}")),
        about: row.about,
        source: row.source,
        packages: row.packages,
        root_helps: row.root_helps,
    };
    rows().into_iter().map(entry).collect()
}

/// The loads that a list like `idle,cpu,custom=COMMAND` or `all` names, without repetition. `custom=` and
/// `gpu=` take the rest of the text, commas included; `all` is every load that needs no command.
pub fn parse(list: &str) -> Result<Vec<Load>, LoadError> {
    let mut loads = Vec::new();
    for load in items(list)?.into_iter().flat_map(|(_, found)| found) {
        if !loads.contains(&load) {
            loads.push(load);
        }
    }
    Ok(loads)
}

/// Those of a list's loads that `all` asked for and no name.
pub fn unnamed(list: &str) -> Result<Vec<Load>, LoadError> {
    let (all, named): (Vec<_>, Vec<_>) = items(list)?.into_iter().partition(|(name, _)| name == "all");
    let named: Vec<_> = named.iter().flat_map(|(_, found)| found).map(Load::name).collect();
    let all = all.into_iter().take(1).flat_map(|(_, found)| found);
    Ok(all.filter(|load| !named.contains(&load.name())).collect())
}

/// A list's items as written, each with the loads that it names.
fn items(list: &str) -> Result<Vec<(String, Vec<Load>)>, LoadError> {
    let mut items = Vec::new();
    let mut rest = Some(list);
    while let Some(text) = rest {
        let text = text.trim_start();
        items.push(if let Some(command) = given(text, "custom=") {
            rest = None;
            (text.to_string(), vec![Load::Custom(command?)])
        } else if let Some(command) = given(text, "gpu=") {
            rest = None;
            (text.to_string(), vec![Load::Gpu(Some(command?))])
        } else {
            let (name, after) =
                text.split_once(',').map_or((text, None), |(name, after)| (name, Some(after)));
            rest = after;
            (name.trim().to_string(), named(name.trim())?)
        });
    }
    Ok(items)
}

fn given(text: &str, word: &str) -> Option<Result<String, LoadError>> {
    let command = text.strip_prefix(word)?.trim();
    Some(if command.is_empty() { Err(unknown(text.trim())) } else { Ok(command.to_string()) })
}

fn named(name: &str) -> Result<Vec<Load>, LoadError> {
    let plain = rows().into_iter().map(|row| row.load).filter(|load| !matches!(load, Load::Custom(_)));
    let found: Vec<Load> = plain.filter(|load| name == "all" || name == load.name()).collect();
    if found.is_empty() { Err(unknown(name)) } else { Ok(found) }
}

/// The names that a list of loads may hold.
pub fn names() -> Vec<&'static str> {
    let mut known: Vec<&str> = rows().iter().map(|row| row.load.name()).filter(|n| *n != "custom").collect();
    known.push("all");
    known
}

fn unknown(name: &str) -> LoadError {
    let mut known = names();
    let cure = machine::likely(name, known.iter().copied()).map(|likely| format!("did you mean {likely}?"));
    known.pop();
    known.extend(["gpu=COMMAND", "custom=COMMAND", "all"]);
    let cure = cure.unwrap_or_else(|| format!("choose from {}", known.join(", ")));
    LoadError::Unknown { name: name.to_string(), cure }
}

/// The program that loads a GPU on this machine; else the package that is missing.
pub(crate) fn gpu_engine() -> Result<GpuWork, &'static str> {
    let has_display = std::env::var_os("DISPLAY").is_some();
    gpu::engine(has_display, Path::new("/"), |name| find_program(name).is_some())
}

/// Missing requirements of `load` on this machine: reason and cure.
pub(crate) fn missing(load: &Load) -> Option<(String, String)> {
    let package = |name: &str| {
        (
            format!("package {name} missing"),
            format!("apt-get install {name}, or leave this load out of --loads"),
        )
    };
    match load {
        Load::Cpu | Load::Io | Load::Memory | Load::System | Load::L2
            if find_program("stress-ng").is_none() =>
        {
            Some(package("stress-ng"))
        }
        Load::Storage if find_program("fio").is_none() => Some(package("fio")),
        Load::Ethercat if !rustix::process::geteuid().is_root() => Some((
            "it sends raw frames, which needs root".to_string(),
            "run as root, or leave this load out of --loads".to_string(),
        )),
        Load::Ethercat if find_program("ip").is_none() => Some(package("iproute2")),
        Load::Gpu(None) => gpu_engine().err().map(package),
        _ => None,
    }
}

impl Load {
    /// Its name, without a command.
    pub fn name(&self) -> &'static str {
        match self {
            Load::Idle => "idle",
            Load::Cpu => "cpu",
            Load::Io => "io",
            Load::Memory => "memory",
            Load::System => "system",
            Load::L2 => "l2",
            Load::Storage => "storage",
            Load::Net => "net",
            Load::Timers => "timers",
            Load::Ipi => "ipi",
            Load::Ethercat => "ethercat",
            Load::Gpu(_) => "gpu",
            Load::Custom(_) => "custom",
        }
    }
}

/// As it is written in `--loads`.
impl fmt::Display for Load {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Load::Gpu(Some(command)) | Load::Custom(command) => write!(out, "{}={command}", self.name()),
            _ => out.write_str(self.name()),
        }
    }
}

impl Serialize for Load {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_in_order_and_without_repetition() {
        assert_eq!(parse("idle, cpu,idle,l2").unwrap(), [Load::Idle, Load::Cpu, Load::L2]);
    }

    #[test]
    fn loads_of_all_are_unnamed_but_for_those_named_too() {
        assert_eq!(unnamed("idle,cpu").unwrap(), []);
        let unnamed: Vec<String> =
            unnamed("cpu,all,gpu=render").unwrap().iter().map(Load::to_string).collect();
        let all: Vec<String> = parse("all").unwrap().iter().map(Load::to_string).collect();
        assert!(all.iter().any(|load| load == "gpu") && all.iter().any(|load| load == "cpu"));
        let expected: Vec<_> = all.into_iter().filter(|load| load != "gpu" && load != "cpu").collect();
        assert_eq!(unnamed, expected);
    }

    #[test]
    fn a_command_takes_the_rest_of_the_list() {
        let loads = parse("idle,custom=dd if=/dev/zero of=/dev/null bs=1,2,cpu").unwrap();
        assert_eq!(loads, [Load::Idle, Load::Custom("dd if=/dev/zero of=/dev/null bs=1,2,cpu".to_string())]);
        assert_eq!(parse("gpu=a,b").unwrap(), [Load::Gpu(Some("a,b".to_string()))]);
    }

    #[test]
    fn all_is_every_load_that_needs_no_command() {
        let names: Vec<String> = parse("all").unwrap().iter().map(Load::to_string).collect();
        let known: Vec<&str> = catalog().iter().map(|entry| entry.name).collect();
        assert_eq!(names, known[..known.len() - 1]);
        assert_eq!(known.last(), Some(&"custom"));
    }

    #[test]
    fn what_is_written_reads_back_as_the_same_load() {
        for load in parse("all,custom=sleep 1,2").unwrap() {
            assert_eq!(parse(&load.to_string()).unwrap(), [load]);
        }
    }

    #[test]
    fn an_unknown_load_is_named_with_those_that_exist() {
        for list in ["idle,disk", "", "cpu,", "custom=", "custom"] {
            let error = parse(list).unwrap_err().to_string();
            assert!(
                error.contains("choose from idle, cpu, io") && error.contains("custom=COMMAND"),
                "{error}"
            );
            assert!(!error.contains('\n'), "{error}");
        }
        let near = parse("idle,cpuu").unwrap_err().to_string();
        assert!(near.contains("'cpuu'") && near.ends_with("; did you mean cpu?"), "{near}");
    }
}
