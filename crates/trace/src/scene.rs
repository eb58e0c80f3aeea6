// SPDX-License-Identifier: MIT OR Apache-2.0
//! The context of a cycle: records around it, and the names for their numbers and addresses.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use cause::names::{Names, shown};
use evidence::cause::Owner;

use crate::code::{CallStack, ProgramCode};
use crate::record::{Predecessor, Scheduled, StackTaken, Stay, ThreadEvent, ThreadRecord};

/// The context of a cycle.
#[derive(Debug)]
pub struct Scene<'a> {
    /// Records of the followed threads and their CPUs, in their order, without copied stacks.
    pub records: &'a [ThreadRecord],
    /// Copied stacks, in their order.
    pub stacks: &'a [ThreadRecord],
    /// The thread.
    pub thread: u32,
    /// The kernel's functions.
    pub names: &'a Names,
    /// The program's threads, by the numbers in a lock's word, if these are different.
    pub numbers: &'a BTreeMap<u32, u32>,
    /// The names of threads that do not run here: those of a recorded trace.
    pub threads: &'a BTreeMap<u32, String>,
    /// The kernel's preemption model: `PREEMPT_NONE`.
    pub preemption: &'a str,
    /// The program's own functions.
    pub code: &'a RefCell<ProgramCode>,
    /// The machine's folder: `/`.
    pub root: &'a Path,
}

impl Scene<'_> {
    /// The kernel functions when the thread was woken at this time.
    pub fn kernel_stack(&self, at_ns: u64) -> Option<&[u64]> {
        self.records.iter().rev().find_map(|record| match &record.kind {
            ThreadEvent::Stack(callers) if record.thread == self.thread && record.at_ns == at_ns => {
                Some(callers.as_slice())
            }
            _ => None,
        })
    }

    /// The position of the thread in its program at this time, or of the thread that released its lock then,
    /// with that thread's number.
    pub fn user_stack(&self, thread: u32, at_ns: u64, taken: StackTaken) -> Option<(u32, CallStack)> {
        self.stacks.iter().rev().find_map(|record| match &record.kind {
            ThreadEvent::UserStack(stack)
                if record.thread == thread && record.at_ns == at_ns && stack.taken == taken =>
            {
                Some((stack.whose, self.code.borrow_mut().call_stack(stack)))
            }
            _ => None,
        })
    }

    /// The stays of a thread, each with its CPU.
    pub fn stays(&self, thread: u32) -> impl DoubleEndedIterator<Item = (u32, &Stay)> {
        self.records.iter().filter(move |record| record.thread == thread).filter_map(|record| {
            match &record.kind {
                ThreadEvent::Stay(stay) => Some((record.cpu, stay.as_ref())),
                _ => None,
            }
        })
    }

    /// The thread's stay that begins at this time.
    pub fn stay_from(&self, in_ns: u64) -> Option<&Stay> {
        self.stays(self.thread).map(|(_, stay)| stay).find(|stay| stay.in_ns == in_ns)
    }

    /// The parts of a thread's stays in which it waited for a lock and kept its CPU.
    pub fn spun(&self, thread: u32) -> impl Iterator<Item = &Stay> {
        self.records.iter().filter(move |record| record.thread == thread).filter_map(|record| {
            match &record.kind {
                ThreadEvent::Spun(part) => Some(part.as_ref()),
                _ => None,
            }
        })
    }

    /// The CPUs for which the thread waited between two times, each with its part of them; `None` for one
    /// that no record tells. It got the last one, or `began_on` if the records show no stay that begins then.
    pub fn waited_for(&self, from_ns: u64, to_ns: u64, began_on: u32) -> Vec<(Option<u32>, u64, u64)> {
        let mut cpu = None;
        let mut parts = Vec::new();
        let mut since_ns = from_ns;
        for record in self.records.iter().filter(|record| record.thread == self.thread) {
            match record.kind {
                ThreadEvent::Stay(_) if record.at_ns <= from_ns => cpu = Some(record.cpu),
                ThreadEvent::Moved { to } if record.at_ns <= from_ns => cpu = Some(to),
                ThreadEvent::Moved { to } if record.at_ns < to_ns => {
                    parts.push((cpu, since_ns, record.at_ns));
                    (cpu, since_ns) = (Some(to), record.at_ns);
                }
                _ => {}
            }
        }
        let got = self.stays(self.thread).find(|(_, stay)| stay.in_ns == to_ns).map(|(cpu, _)| cpu);
        parts.push((got.or(Some(began_on)), since_ns, to_ns));
        parts
    }

    /// The threads that got a CPU between two times: those that are not followed and, of the others, those
    /// that left it since. Each with whether it is a kernel thread.
    pub fn came(&self, cpu: Option<u32>, from_ns: u64, to_ns: u64) -> Vec<(u64, Scheduled, bool)> {
        let mut came: Vec<(u64, Scheduled, bool)> = self
            .records
            .iter()
            .filter_map(|record| match &record.kind {
                ThreadEvent::Switched { to, is_kernel, .. } if Some(record.cpu) == cpu => {
                    Some((record.at_ns, to.clone(), *is_kernel))
                }
                ThreadEvent::Stay(stay)
                    if record.thread != self.thread && Some(record.cpu) == cpu && !stay.goes_on =>
                {
                    let (id, prio, policy) = (record.thread, stay.prio, stay.policy);
                    Some((stay.in_ns, Scheduled { id, prio, policy, name: String::new() }, false))
                }
                _ => None,
            })
            .filter(|(at_ns, ..)| *at_ns > from_ns && *at_ns < to_ns)
            .collect();
        came.sort_by_key(|(at_ns, ..)| *at_ns);
        for (_, thread, _) in came.iter_mut().filter(|(_, thread, _)| thread.name.is_empty()) {
            thread.name = self.thread_name(thread.id);
        }
        came
    }

    /// The thread that left a CPU at this time, with its state then.
    pub fn left(&self, cpu: Option<u32>, at_ns: u64) -> Option<&Predecessor> {
        self.records.iter().filter(|record| Some(record.cpu) == cpu).find_map(|record| match &record.kind {
            ThreadEvent::Switched { from, .. } if record.at_ns == at_ns => Some(from),
            ThreadEvent::Stay(stay) if stay.in_ns == at_ns && !stay.is_begin_unseen && !stay.goes_on => {
                Some(&stay.after)
            }
            _ => None,
        })
    }

    /// Whether a CPU is offline now.
    pub fn is_offline(&self, cpu: u32) -> bool {
        inspect::is_offline(self.root, cpu)
    }

    /// A thread's number here, from its number in the program's own words. In a PID namespace the number of a
    /// thread of another process is not known.
    pub fn number(&self, inner: u32) -> Option<u32> {
        if self.numbers.is_empty() { Some(inner) } else { self.numbers.get(&inner).copied() }
    }

    /// A thread's name: that of the trace, else its current one.
    pub fn thread_name(&self, thread: u32) -> String {
        self.threads.get(&thread).cloned().unwrap_or_else(|| name_below(self.root, thread))
    }

    /// A thread with its name: the recorded one, else its current name.
    pub fn owner(&self, tid: u32, known: Option<&Owner>) -> Owner {
        match known.filter(|by| by.tid == tid) {
            Some(same) => same.clone(),
            None => Owner { tid, name: self.thread_name(tid), ..Owner::default() },
        }
    }

    /// The name of a lock; its address where it has none.
    pub fn lock(&self, address: u64) -> String {
        self.data(address).unwrap_or_else(|| shown(address))
    }

    /// The name of a lock, or of the address of a fault, which is the same in the next run.
    pub fn data(&self, address: u64) -> Option<String> {
        self.code.borrow_mut().data(address)
    }
}

/// A thread's name, while it runs.
pub fn live_name(thread: u32) -> String {
    name_below(Path::new("/"), thread)
}

fn name_below(root: &Path, thread: u32) -> String {
    let name = untrusted::text(root.join(format!("proc/{thread}/comm"))).unwrap_or_default();
    name.trim_end().to_string()
}
