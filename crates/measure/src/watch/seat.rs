// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where and how a thread runs, as the kernel tells it (proc_pid_stat(5), `status`, `cgroup`, `sched`), and
//! what of it changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use evidence::taint;
use machine::CpuSet;
use rt::{Policy, thread};

use super::GrantDifference;

/// A thread that is watched; the control thread looks at it, and at its end the thread itself.
#[derive(Debug)]
pub struct Seat {
    who: String,
    process: u32,
    id: u32,
    /// The CPU that it measures, and the one that it must run on; `None` where it may run on several.
    cpu: u32,
    stays: Option<u32>,
    first: ThreadStanding,
    /// The first difference of each kind, and the control groups that it has been in.
    found: Mutex<BTreeMap<SeatField, String>>,
    groups: Mutex<String>,
}

/// The parts of a thread's standing that can differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SeatField {
    Affinity,
    Cpu,
    Policy,
    Group,
}

/// How a thread stands.
#[derive(Debug, Clone, PartialEq)]
struct ThreadStanding {
    policy: Policy,
    nice: i64,
    cpus: CpuSet,
    last_cpu: u32,
    /// How often it changed its CPU; absent where the kernel does not count that (CONFIG_SCHED_DEBUG).
    moves: Option<u64>,
    groups: String,
}

impl Seat {
    /// The calling thread, once it is set up; it measures `cpu`. `None` where the kernel does not report it,
    /// without `/proc`.
    pub fn own(who: String, cpu: u32) -> Option<Arc<Seat>> {
        Seat::of(who, std::process::id(), thread::id(), cpu, None)
    }

    /// A thread that has to do with measuring `cpu`. It must stay on `stays`, where that is given; else on
    /// the only CPU that it is allowed now.
    pub fn of(who: String, process: u32, id: u32, cpu: u32, stays: Option<u32>) -> Option<Arc<Seat>> {
        let first = ThreadStanding::of(process, id)?;
        let only = first.cpus.iter().next().filter(|_| first.cpus.len() == 1);
        let groups = Mutex::new(first.groups.clone());
        let seat =
            Seat { who, process, id, cpu, stays: stays.or(only), first, found: Mutex::default(), groups };
        Some(Arc::new(seat))
    }

    /// Looks at it; a thread that has ended has looked at itself before.
    pub fn poll(&self) {
        let Some(now) = ThreadStanding::of(self.process, self.id) else { return };
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, words) in now.differs(&self.first, self.stays) {
            found.entry(kind).or_insert(words);
        }
        *self.groups.lock().unwrap_or_else(PoisonError::into_inner) = now.groups;
    }

    /// The control groups that it is in.
    pub fn groups(&self) -> String {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The differences.
    pub(crate) fn found(&self) -> Vec<GrantDifference> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let difference = |(kind, words): (&SeatField, &String)| GrantDifference {
            code: match kind {
                SeatField::Affinity | SeatField::Cpu => taint::MOVED,
                SeatField::Policy | SeatField::Group => taint::GRANT_LOST,
            },
            found: format!("{} {words}", self.who),
            cure: match kind {
                SeatField::Affinity | SeatField::Cpu => {
                    "find what moves threads (taskset, cpusets, irqbalance, hot-plug) and keep it off"
                }
                SeatField::Policy => {
                    "find what changes policies (chrt, a priority daemon, rtkit) and keep it off"
                }
                SeatField::Group => {
                    "find what moves threads between control groups (a service manager, a container runtime) and keep it off"
                }
            },
            cpu: Some(self.cpu),
        };
        found.iter().map(difference).collect()
    }
}

impl ThreadStanding {
    fn of(process: u32, id: u32) -> Option<ThreadStanding> {
        let folder = format!("/proc/{process}/task/{id}");
        // A name need not be UTF-8.
        let text = |name: &str| Some(lossy(&untrusted::bytes(format!("{folder}/{name}")).ok()?));
        let (nice, last_cpu) = in_stat(&text("stat")?)?;
        Some(ThreadStanding {
            policy: Policy::of(id).ok()?,
            nice,
            cpus: field(&text("status")?, "Cpus_allowed_list")?.parse().ok()?,
            last_cpu,
            moves: text("sched").and_then(|text| field(&text, "se.nr_migrations")?.parse().ok()),
            groups: text("cgroup").unwrap_or_default(),
        })
    }

    /// The differences from how it stood at first.
    fn differs(&self, first: &ThreadStanding, stays: Option<u32>) -> Vec<(SeatField, String)> {
        let mut found = Vec::new();
        if self.cpus != first.cpus {
            found.push((
                SeatField::Affinity,
                format!("was allowed cpus {} instead of {} while it measured", self.cpus, first.cpus),
            ));
        }
        let is_elsewhere = stays.map_or(!first.cpus.contains(self.last_cpu), |cpu| self.last_cpu != cpu);
        let moves = self.moves.zip(first.moves).map_or(0, |(now, then)| now.saturating_sub(then));
        if is_elsewhere {
            let instead = stays.map_or_else(|| first.cpus.to_string(), |cpu| cpu.to_string());
            found.push((SeatField::Cpu, format!("ran on cpu {} instead of {instead}", self.last_cpu)));
        } else if moves > 0 && stays.is_some() {
            found.push((SeatField::Cpu, format!("was moved to another CPU {moves} times while it measured")));
        }
        if self.policy != first.policy {
            found.push((SeatField::Policy, format!("had {} instead of {}", self.policy, first.policy)));
        } else if self.nice != first.nice {
            found.push((SeatField::Policy, format!("had nice {} instead of {}", self.nice, first.nice)));
        }
        found.extend(moved_group(&first.groups, &self.groups).map(|words| (SeatField::Group, words)));
        found
    }
}

/// The first hierarchy in which the group differs; one that only one of the texts has says nothing.
fn moved_group(first: &str, now: &str) -> Option<String> {
    let groups = |text: &str| -> BTreeMap<String, String> {
        let parts = |line: &str| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            Some((controllers.to_string(), path.to_string()))
        };
        text.lines().filter_map(parts).collect()
    };
    let first = groups(first);
    let (controllers, path, before) = groups(now).into_iter().find_map(|(controllers, path)| {
        let before = first.get(&controllers)?;
        (*before != path).then(|| (controllers, path, before.clone()))
    })?;
    let of = if controllers.is_empty() { String::new() } else { format!(" of {controllers}") };
    Some(format!("was put into the control group{of} {path} instead of {before}"))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Nice and the CPU: fields 19 and 39; the name stands in parentheses and may hold some itself.
fn in_stat(stat: &str) -> Option<(i64, u32)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.get(19 - 3)?.parse().ok()?, fields.get(39 - 3)?.parse().ok()?))
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.trim_start().strip_prefix(':');
    text.lines().find_map(value).map(str::trim)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn standing() -> ThreadStanding {
        ThreadStanding {
            policy: Policy::Fifo(80),
            nice: 0,
            cpus: "1".parse().unwrap(),
            last_cpu: 1,
            moves: Some(3),
            groups: "2:cpuset:/a\n1:cpu:/\n0::/user.slice\n".into(),
        }
    }

    #[test]
    fn a_thread_that_stands_as_it_stood_differs_in_nothing() {
        assert_eq!(standing().differs(&standing(), Some(1)), []);
        // A hierarchy that was mounted meanwhile is no move.
        let more = ThreadStanding { groups: format!("3:freezer:/b\n{}", standing().groups), ..standing() };
        assert_eq!(more.differs(&standing(), Some(1)), []);
    }

    #[test]
    fn every_change_of_a_thread_is_found() {
        let cases = [
            (
                ThreadStanding { cpus: "0-1".parse().unwrap(), ..standing() },
                "was allowed cpus 0-1 instead of 1",
            ),
            (ThreadStanding { last_cpu: 0, ..standing() }, "ran on cpu 0 instead of 1"),
            (ThreadStanding { moves: Some(5), ..standing() }, "was moved to another CPU 2 times"),
            (
                ThreadStanding { policy: Policy::Other, ..standing() },
                "had SCHED_OTHER instead of SCHED_FIFO 80",
            ),
            (
                ThreadStanding { policy: Policy::Fifo(79), ..standing() },
                "had SCHED_FIFO 79 instead of SCHED_FIFO 80",
            ),
            (ThreadStanding { nice: 5, ..standing() }, "had nice 5 instead of 0"),
            (
                ThreadStanding { groups: "2:cpuset:/b\n1:cpu:/\n0::/user.slice\n".into(), ..standing() },
                "was put into the control group of cpuset /b instead of /a",
            ),
            (
                ThreadStanding { groups: "2:cpuset:/a\n1:cpu:/\n0::/x.slice\n".into(), ..standing() },
                "was put into the control group /x.slice instead of /user.slice",
            ),
        ];
        for (now, words) in cases {
            let found = now.differs(&standing(), Some(1));
            assert!(found.len() == 1 && found[0].1.starts_with(words), "{found:?}");
        }
        let deadline = |runtime_ns| ThreadStanding {
            policy: Policy::Deadline { runtime_ns, deadline_ns: 9, period_ns: 9 },
            ..standing()
        };
        assert_eq!(deadline(2).differs(&deadline(3), Some(1))[0].0, SeatField::Policy);
    }

    #[test]
    fn a_thread_that_may_run_on_several_cpus_may_change_among_them() {
        let first = ThreadStanding { cpus: "0-1".parse().unwrap(), ..standing() };
        let now = |last_cpu| ThreadStanding { last_cpu, moves: Some(9), ..first.clone() };
        assert_eq!(now(0).differs(&first, None), []);
        assert_eq!(now(2).differs(&first, None)[0].1, "ran on cpu 2 instead of 0-1");
        assert_eq!(now(0).differs(&first, Some(1))[0].1, "ran on cpu 0 instead of 1");
    }

    #[test]
    fn a_name_with_parentheses_does_not_move_the_fields() {
        let zeros = ["0"; 60].join(" ");
        assert_eq!(in_stat(&format!("7 (a) R 1 (\u{fffd}) S {zeros}")), Some((0, 0)));
        assert_eq!(in_stat("7 (a) S 1"), None);
    }

    /// A watched thread that waits until it is let go, and then looks at itself.
    fn watched(meanwhile: impl FnOnce(u32)) -> Vec<GrantDifference> {
        let (say, said) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let cpu = thread::affinity()[0];
            thread::set_affinity(&[cpu]).unwrap();
            let seat = Seat::own("a thread".into(), cpu).unwrap();
            say.send((Arc::clone(&seat), thread::id())).unwrap();
            gone.recv().unwrap();
            seat.poll();
        });
        let (seat, id) = said.recv().unwrap();
        meanwhile(id);
        seat.poll();
        go.send(()).unwrap();
        thread.join().unwrap();
        // Of one that has ended nothing more is known.
        seat.poll();
        seat.found()
    }

    #[test]
    fn a_real_thread_is_found_moved_and_lowered() {
        assert_eq!(watched(|_| ()), []);
        let nice = watched(|id| {
            let pid = rustix::process::Pid::from_raw(id.cast_signed());
            rustix::process::setpriority_process(pid, 19).unwrap();
        });
        // Tests that run with nice 19 already have nowhere to go.
        assert!(
            nice.iter().all(|found| found.found.starts_with("a thread had nice 19 instead of ")),
            "{nice:?}"
        );
        let is_lowest = rustix::process::getpriority_process(None).unwrap() == 19;
        assert_eq!(nice.len(), usize::from(!is_lowest));
        let policy = watched(|id| Policy::Batch.apply_to(id, false).unwrap());
        assert_eq!(
            (policy[0].code, policy[0].found.as_str()),
            ("grant-lost", "a thread had SCHED_BATCH instead of SCHED_OTHER")
        );
        let [one, other, ..] = thread::affinity()[..] else {
            println!("skipped: it needs two CPUs");
            return;
        };
        let move_to = |id: u32, cpu: u32| {
            let mut set = rustix::thread::CpuSet::new();
            set.set(cpu as usize);
            rustix::thread::sched_setaffinity(rustix::process::Pid::from_raw(id.cast_signed()), &set)
                .unwrap();
        };
        let moved = watched(|id| move_to(id, other));
        assert!(moved.iter().any(|found| found.found.contains("was allowed cpus")), "{moved:?}");
        let and_back = watched(|id| {
            move_to(id, other);
            move_to(id, one);
        });
        // The kernel counts a move only of a thread that ran, or may have waited to.
        assert!(and_back.iter().all(|found| found.code == "moved"), "{and_back:?}");
    }
}
