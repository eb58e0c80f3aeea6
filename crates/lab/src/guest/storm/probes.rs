// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text patching by tracing: probes on a function's entry (x86: the tracer's call there) and on an
//! instruction behind it (x86: a breakpoint; arm64: stop_machine), and the function tracer on a few
//! functions.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::guest::Result;
use crate::guest::storm::tracing::{StormInstance, TRACING};
use crate::guest::storm::{Context, Storm, StormKind};

pub const KPROBES: StormKind = StormKind {
    name: "kprobes",
    about: "adds a kernel probe, switches it on, off, and removes it",
    rounds: 8,
    pace: Duration::from_millis(300),
    ready: |_| Ok(Box::new(KernelProbe::ready()?)),
    ..StormKind::USUAL
};

pub const FTRACE: StormKind = StormKind {
    name: "ftrace",
    about: "switches the function tracer on a few functions on and off",
    rounds: 6,
    pace: Duration::from_millis(400),
    ready: |_| Ok(Box::new(Tracer::ready()?)),
    ..StormKind::USUAL
};

/// A function that opening a file calls, on every kernel.
const FUNCTION: &str = "do_sys_openat2";

struct KernelProbe {
    instance: StormInstance,
    places: [String; 2],
    optimization: Option<String>,
    hits: u64,
}

/// How far behind the entry another instruction begins that is not the tracer's: x86-64 with IBT and without;
/// arm64, where two instructions are the tracer's, without BTI and with it.
const BEHIND: &[&str] = &["+9", "+5", "+8", "+12"];

/// Turning breakpoints into jumps later waits for every task (synchronize_rcu_tasks), and the next probe for
/// that.
const OPTIMIZATION: &str = "/proc/sys/debug/kprobes-optimization";

impl KernelProbe {
    fn ready() -> Result<KernelProbe> {
        let instance = StormInstance::make("isolator-kprobes", false)?;
        let optimization = fs::read_to_string(OPTIMIZATION).ok();
        if optimization.is_some() {
            fs::write(OPTIMIZATION, "0")?;
        }
        let entry = format!("p:isolator/storm {FUNCTION}");
        define(&entry)?;
        define("-:isolator/storm")?;
        let behind = BEHIND.iter().map(|place| format!("{entry}{place}"));
        let behind = behind.into_iter().find(|place| define(place).is_ok());
        let behind = behind.ok_or("no instruction behind a function's entry takes a probe")?;
        define("-:isolator/storm")?;
        Ok(KernelProbe { instance, places: [entry, behind], optimization, hits: 0 })
    }
}

/// Adds or removes a probe. The file is appended to: opened otherwise it loses every probe.
fn define(line: &str) -> Result<()> {
    let file = Path::new(TRACING).join("kprobe_events");
    let mut events =
        OpenOptions::new().append(true).open(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(writeln!(events, "{line}").map_err(|e| format!("kprobe_events: {line}: {e}"))?)
}

/// How often the probe was hit while it is there.
fn hits() -> Result<u64> {
    let profile = fs::read_to_string(Path::new(TRACING).join("kprobe_profile"))?;
    let mut lines = profile.lines().map(str::split_whitespace);
    Ok(lines
        .find_map(|mut words| words.next().filter(|name| *name == "storm").and(words.next()?.parse().ok()))
        .unwrap_or(0))
}

impl Storm for KernelProbe {
    fn round(&mut self, _: &mut Context) -> Result<()> {
        self.places.swap(0, 1);
        define(&self.places[0])?;
        self.instance.write("events/isolator/storm/enable", "1")?;
        File::open("/proc/self/stat")?;
        self.instance.write("events/isolator/storm/enable", "0")?;
        self.hits += hits()?;
        define("-:isolator/storm")
    }

    fn end(&mut self, rounds: u64) -> Result<String> {
        if Path::new(TRACING).join("events/isolator/storm").exists() {
            let _ = self.instance.write("events/isolator/storm/enable", "0");
            define("-:isolator/storm")?;
        }
        if let Some(before) = &self.optimization {
            fs::write(OPTIMIZATION, before.trim())?;
        }
        if self.hits < rounds {
            return Err(format!("{rounds} probes on {FUNCTION} were hit {} times", self.hits).into());
        }
        let hits = self.hits;
        Ok(format!(
            "a probe on {FUNCTION}, or on an instruction behind, added and removed {rounds} times, and hit {hits} times"
        ))
    }
}

/// The function tracer at the top: leaving it in an instance frees a trampoline, for which the kernel waits
/// seconds where a CPU's thread never sleeps (synchronize_rcu_tasks), and keeps all other tracing waiting.
struct Tracer {
    top: StormInstance,
    _names: StormInstance,
    entries: u64,
}

impl Tracer {
    fn ready() -> Result<Tracer> {
        let top = StormInstance::top();
        if !top.read("available_tracers")?.contains("function") {
            return Err("this kernel has no function tracer".into());
        }
        if top.read("current_tracer")?.trim() != "nop" {
            return Err("the kernel traces already".into());
        }
        // The tracer has names of tasks recorded, by tracepoints of the scheduler: an event that wants the
        // same keeps these on, so that they are not switched with it.
        let names = StormInstance::make("isolator-ftrace", true)?;
        names.write("events/task/task_rename/enable", "1")?;
        top.write("set_ftrace_filter", &format!("{FUNCTION} vfs_read vfs_write"))?;
        Ok(Tracer { top, _names: names, entries: 0 })
    }
}

impl Storm for Tracer {
    fn round(&mut self, _: &mut Context) -> Result<()> {
        self.top.write("current_tracer", "function")?;
        File::open("/proc/self/stat")?;
        self.entries += self.top.entries()?;
        self.top.write("current_tracer", "nop")
    }

    fn end(&mut self, rounds: u64) -> Result<String> {
        self.top.write("current_tracer", "nop")?;
        self.top.write("set_ftrace_filter", "")?;
        if self.entries < rounds {
            return Err(format!("{rounds} times on, it recorded {} calls", self.entries).into());
        }
        Ok(format!("3 functions traced {rounds} times, {} calls recorded", self.entries))
    }
}
