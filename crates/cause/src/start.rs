// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts the requested collector of events, or the best that passes its trial on this machine.

use std::collections::BTreeMap;
use std::path::Path;

use evidence::cause::Choice;
use machine::snapshot::Cpu;
use machine::{CpuSet, Snapshot};

use crate::bpf::Bpf;
use crate::collect::Collect;
use crate::depth::Depth;
use crate::tracefs::{By, Tracefs};
use crate::trial::Trial;
use crate::{Result, policy};

/// The extent of a watch.
#[derive(Debug, Clone)]
pub struct WatchSpec {
    /// The measured CPUs.
    pub cpus: CpuSet,
    /// How much is watched there.
    pub depth: Depth,
}

impl WatchSpec {
    /// Each measured CPU's siblings.
    pub(crate) fn siblings(&self, machine: &Snapshot) -> BTreeMap<u32, CpuSet> {
        let of = |cpu: u32| {
            let one: CpuSet = [cpu].into_iter().collect();
            (cpu, machine.siblings_of(&one).without(&one).and(&machine.online()))
        };
        self.cpus.iter().map(of).collect()
    }

    /// The measured CPUs and their siblings.
    fn watched(&self, machine: &Snapshot) -> CpuSet {
        let siblings = self.siblings(machine);
        self.cpus.iter().chain(siblings.values().flat_map(|set| set.iter().collect::<Vec<_>>())).collect()
    }
}

/// The outcome of a start.
#[derive(Debug)]
pub enum Started {
    /// A collector of events.
    Events(Box<dyn Collect>),
    /// No collector of events can be used here; the kernel's counters may be.
    Counters {
        /// The reasons, in sentences.
        because: Vec<String>,
    },
}

/// Starts the collector of `choice`, or with `auto` the best that this machine allows. Its trial takes some
/// 100 ms on one of the CPUs, before anything measures there.
pub fn start(choice: Choice, spec: &WatchSpec, machine: &Snapshot) -> Result<Started> {
    let mut because = Vec::new();
    for one in [Choice::Bpf, Choice::Tracefs, Choice::Osnoise] {
        let is_asked = choice == one;
        if !is_asked && (choice != Choice::Auto || one == Choice::Osnoise) {
            continue;
        }
        match start_one(one, is_asked, spec, machine) {
            Ok(collector) => return Ok(Started::Events(collector)),
            Err(error) if is_asked => return Err(error),
            Err(error) => because.push(format!("no events by {one}: {}", error.why)),
        }
    }
    Ok(Started::Counters { because })
}

fn start_one(
    choice: Choice,
    is_asked: bool,
    spec: &WatchSpec,
    machine: &Snapshot,
) -> Result<Box<dyn Collect>> {
    let root = Path::new("/");
    let cpus = spec.watched(machine);
    let has_idle_states = have_idle_states(&cpus, machine);
    let taint_before = policy::taint(root);
    let collector: Box<dyn Collect> = if choice == Choice::Bpf {
        policy::bpf(root)?;
        Box::new(Bpf::start(&cpus, spec.depth, has_idle_states)?)
    } else {
        policy::tracefs(root)?;
        let by = if choice == Choice::Osnoise { By::Osnoise } else { By::Events };
        Box::new(Tracefs::start(root, &cpus, spec.depth, has_idle_states, by)?)
    };
    let others = cpus.without(&spec.cpus);
    let cpus: Vec<u32> = spec.cpus.iter().chain(others.iter()).collect();
    let (online, depth) = (&machine.online(), spec.depth);
    Trial { root, cpus: &cpus, online, depth, has_idle_states, is_asked }.of(collector, taint_before)
}

/// Whether one of these CPUs has several idle states.
fn have_idle_states(cpus: &CpuSet, machine: &Snapshot) -> bool {
    let choices = |cpu: &Cpu| cpu.idle_states.iter().filter(|state| !state.disabled).count();
    machine.cpus.iter().any(|cpu| cpus.contains(cpu.id) && choices(cpu) > 1)
}
