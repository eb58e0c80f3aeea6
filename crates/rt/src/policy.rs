// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scheduling policies (sched(7)), set for the calling thread and read back: the deadline policy by
//! sched_setattr(2), the others by the older sched_setscheduler(2), which every kernel, sandbox and debugger
//! knows. The C library's wrappers are not used: musl's refuse.

use std::fmt;

use crate::{Error, Result};

/// A scheduling policy with its parameters.
///
/// ```
/// use rt::Policy;
///
/// match Policy::Fifo(80).apply(false) {
///     Ok(()) => assert_eq!(Policy::current()?, Policy::Fifo(80)),
///     Err(error) => println!("{error}"),
/// }
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// SCHED_FIFO with a priority of 1 to 99.
    Fifo(u32),
    /// SCHED_RR with a priority of 1 to 99.
    RoundRobin(u32),
    /// SCHED_DEADLINE: `runtime_ns` of every `period_ns`, by `deadline_ns` after its start.
    Deadline {
        /// CPU time of one period.
        runtime_ns: u64,
        /// The relative deadline, from the period's start.
        deadline_ns: u64,
        /// The period.
        period_ns: u64,
    },
    /// SCHED_OTHER, the ordinary policy.
    Other,
    /// SCHED_BATCH.
    Batch,
    /// SCHED_IDLE.
    Idle,
}

/// A scheduling policy without its parameters.
///
/// ```
/// use rt::policy::PolicyKind;
///
/// let kind = PolicyKind::named("rr").unwrap();
/// assert_eq!(kind.name(), "rr");
/// assert_eq!(kind.with(80, (0, 0, 0)).unwrap(), rt::Policy::RoundRobin(80));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PolicyKind {
    /// SCHED_FIFO.
    #[default]
    Fifo,
    /// SCHED_RR.
    RoundRobin,
    /// SCHED_DEADLINE.
    Deadline,
    /// SCHED_OTHER.
    Other,
    /// SCHED_BATCH.
    Batch,
    /// SCHED_IDLE.
    Idle,
}

impl PolicyKind {
    /// All of them.
    pub const ALL: [PolicyKind; 6] = [
        PolicyKind::Fifo,
        PolicyKind::RoundRobin,
        PolicyKind::Deadline,
        PolicyKind::Other,
        PolicyKind::Batch,
        PolicyKind::Idle,
    ];

    /// The policy called `name`: one of [`NAMES`].
    ///
    /// ```
    /// use rt::policy::PolicyKind;
    ///
    /// assert_eq!(PolicyKind::named("fifo"), Some(PolicyKind::Fifo));
    /// assert_eq!(PolicyKind::named("fif"), None);
    /// ```
    pub fn named(name: &str) -> Option<PolicyKind> {
        PolicyKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Its name: what the command line and the evidence say.
    ///
    /// ```
    /// assert_eq!(rt::policy::PolicyKind::RoundRobin.name(), "rr");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            PolicyKind::Fifo => "fifo",
            PolicyKind::RoundRobin => "rr",
            PolicyKind::Deadline => "deadline",
            PolicyKind::Other => "other",
            PolicyKind::Batch => "batch",
            PolicyKind::Idle => "idle",
        }
    }

    /// Whether its threads have a priority of 1 to 99.
    ///
    /// ```
    /// use rt::policy::PolicyKind;
    ///
    /// assert!(PolicyKind::Fifo.has_priority() && !PolicyKind::Deadline.has_priority());
    /// ```
    pub fn has_priority(self) -> bool {
        matches!(self, PolicyKind::Fifo | PolicyKind::RoundRobin)
    }

    /// Whether every ordinary task may delay its threads.
    ///
    /// ```
    /// use rt::policy::PolicyKind;
    ///
    /// assert!(PolicyKind::Batch.is_ordinary() && !PolicyKind::Deadline.is_ordinary());
    /// ```
    pub fn is_ordinary(self) -> bool {
        matches!(self, PolicyKind::Other | PolicyKind::Batch | PolicyKind::Idle)
    }

    /// The policy with its parameters: `priority` for fifo and rr; runtime, deadline and period in
    /// nanoseconds for the deadline policy.
    ///
    /// ```
    /// use rt::policy::PolicyKind;
    ///
    /// assert_eq!(PolicyKind::Fifo.with(80, (0, 0, 0))?, rt::Policy::Fifo(80));
    /// assert!(PolicyKind::Fifo.with(100, (0, 0, 0)).is_err());
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn with(self, priority: u32, deadline: (u64, u64, u64)) -> Result<Policy> {
        let real_time = |policy: fn(u32) -> Policy| match priority {
            1..=99 => Ok(policy(priority)),
            _ => Err(Error::new(
                format!("use priority {priority} with {}", self.name()),
                "it is not 1 to 99",
                "choose 1 to 98",
            )),
        };
        let (runtime_ns, deadline_ns, period_ns) = deadline;
        match self {
            PolicyKind::Fifo => real_time(Policy::Fifo),
            PolicyKind::RoundRobin => real_time(Policy::RoundRobin),
            PolicyKind::Deadline => Ok(Policy::Deadline { runtime_ns, deadline_ns, period_ns }),
            PolicyKind::Other => Ok(Policy::Other),
            PolicyKind::Batch => Ok(Policy::Batch),
            PolicyKind::Idle => Ok(Policy::Idle),
        }
    }
}

/// The policies by name: what the command line and the evidence say.
pub const NAMES: [&str; 6] = {
    let mut names = [""; 6];
    let mut at = 0;
    while at < names.len() {
        names[at] = PolicyKind::ALL[at].name();
        at += 1;
    }
    names
};

/// The kernel's struct sched_attr (include/uapi/linux/sched/types.h), first version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    sched_policy: u32,
    sched_flags: u64,
    sched_nice: i32,
    sched_priority: u32,
    sched_runtime: u64,
    sched_deadline: u64,
    sched_period: u64,
}

const SCHED_FLAG_RESET_ON_FORK: u64 = 1;

impl Policy {
    /// The policy called `name`; `priority` serves fifo and rr, `deadline` the deadline policy.
    ///
    /// ```
    /// use rt::Policy;
    ///
    /// assert_eq!(Policy::named("fifo", 80, (0, 0, 0))?, Policy::Fifo(80));
    /// assert!(Policy::named("fifo", 100, (0, 0, 0)).is_err());
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn named(name: &str, priority: u32, deadline: (u64, u64, u64)) -> Result<Policy> {
        let kind = PolicyKind::named(name).ok_or_else(|| {
            Error::new(
                format!("use policy '{name}'"),
                "there is none of that name",
                format!("choose one of {}", NAMES.join(", ")),
            )
        })?;
        kind.with(priority, deadline)
    }

    /// The policy without its parameters.
    ///
    /// ```
    /// assert_eq!(rt::Policy::Fifo(80).kind(), rt::policy::PolicyKind::Fifo);
    /// ```
    pub fn kind(&self) -> PolicyKind {
        match self {
            Policy::Fifo(_) => PolicyKind::Fifo,
            Policy::RoundRobin(_) => PolicyKind::RoundRobin,
            Policy::Deadline { .. } => PolicyKind::Deadline,
            Policy::Other => PolicyKind::Other,
            Policy::Batch => PolicyKind::Batch,
            Policy::Idle => PolicyKind::Idle,
        }
    }

    /// Its name: one of [`NAMES`].
    ///
    /// ```
    /// assert_eq!(rt::Policy::RoundRobin(1).name(), "rr");
    /// ```
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// Its real-time priority, for fifo and rr.
    ///
    /// ```
    /// assert_eq!((rt::Policy::Fifo(80).priority(), rt::Policy::Batch.priority()), (Some(80), None));
    /// ```
    pub fn priority(&self) -> Option<u32> {
        match self {
            Policy::Fifo(priority) | Policy::RoundRobin(priority) => Some(*priority),
            _ => None,
        }
    }

    /// Sets the policy of the calling thread; with `reset_on_fork` its children start as ordinary ones.
    ///
    /// ```
    /// // Every thread may ask for this one.
    /// rt::Policy::Batch.apply(false)?;
    /// assert_eq!(rt::Policy::current()?, rt::Policy::Batch);
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn apply(&self, reset_on_fork: bool) -> Result<()> {
        self.apply_to(0, reset_on_fork)
    }

    /// As [`Policy::apply`], for the thread of this number; 0 is the calling one.
    ///
    /// ```
    /// rt::Policy::Batch.apply_to(rt::thread::id(), false)?;
    /// assert_eq!(rt::Policy::current()?, rt::Policy::Batch);
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn apply_to(&self, thread: u32, reset_on_fork: bool) -> Result<()> {
        let thread = thread as libc::pid_t;
        let status = match *self {
            Policy::Deadline { runtime_ns, deadline_ns, period_ns } => {
                let attr = SchedAttr {
                    size: size_of::<SchedAttr>() as u32,
                    sched_policy: self.number() as u32,
                    sched_flags: if reset_on_fork { SCHED_FLAG_RESET_ON_FORK } else { 0 },
                    sched_runtime: runtime_ns,
                    sched_deadline: deadline_ns,
                    sched_period: period_ns,
                    ..SchedAttr::default()
                };
                // SAFETY: attr is a live, fully initialised struct sched_attr whose size field says its
                // length; the kernel only reads it.
                unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attr, 0) }
            }
            _ => {
                let policy = self.number() | if reset_on_fork { libc::SCHED_RESET_ON_FORK } else { 0 };
                let priority = self.priority().unwrap_or(0) as libc::c_int;
                // SAFETY: the kernel's struct sched_param is one int, which is live and only read.
                unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, policy, &raw const priority) }
            }
        };
        if status == 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        Err(Error::os(format!("set {self}"), &error, self.cure(error.raw_os_error().unwrap_or(0))))
    }

    /// The policy of the calling thread.
    ///
    /// ```
    /// println!("this thread has {}", rt::Policy::current()?);
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn current() -> Result<Policy> {
        Policy::of(0)
    }

    /// The policy of the thread of this number; 0 is the calling one.
    ///
    /// ```
    /// println!("process 1 has {}", rt::Policy::of(1)?);
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn of(thread: u32) -> Result<Policy> {
        let thread = thread as libc::pid_t;
        let failed = || {
            let error = std::io::Error::last_os_error();
            Error::os("read a thread's scheduling policy", &error, "see whether the thread still runs")
        };
        let mut priority: libc::c_int = 0;
        // SAFETY: takes a number only.
        let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, thread) };
        // SAFETY: the kernel's struct sched_param is one int, which is live and writable.
        let status = unsafe { libc::syscall(libc::SYS_sched_getparam, thread, &raw mut priority) };
        if policy < 0 || status != 0 {
            return Err(failed());
        }
        Ok(match policy as libc::c_int & !libc::SCHED_RESET_ON_FORK {
            libc::SCHED_FIFO => Policy::Fifo(priority.unsigned_abs()),
            libc::SCHED_RR => Policy::RoundRobin(priority.unsigned_abs()),
            libc::SCHED_BATCH => Policy::Batch,
            libc::SCHED_IDLE => Policy::Idle,
            libc::SCHED_DEADLINE => {
                let mut attr = SchedAttr::default();
                let size = size_of::<SchedAttr>();
                // SAFETY: attr is writable for `size` bytes, which the kernel is told.
                if unsafe { libc::syscall(libc::SYS_sched_getattr, thread, &raw mut attr, size, 0) } != 0 {
                    return Err(failed());
                }
                let SchedAttr { sched_runtime, sched_deadline, sched_period, .. } = attr;
                Policy::Deadline {
                    runtime_ns: sched_runtime,
                    deadline_ns: sched_deadline,
                    period_ns: sched_period,
                }
            }
            _ => Policy::Other,
        })
    }

    fn number(&self) -> i32 {
        match self {
            Policy::Fifo(_) => libc::SCHED_FIFO,
            Policy::RoundRobin(_) => libc::SCHED_RR,
            Policy::Deadline { .. } => libc::SCHED_DEADLINE,
            Policy::Other => libc::SCHED_OTHER,
            Policy::Batch => libc::SCHED_BATCH,
            Policy::Idle => libc::SCHED_IDLE,
        }
    }

    fn cure(&self, errno: i32) -> &'static str {
        match (self, errno) {
            (Policy::Deadline { .. }, libc::EPERM) => {
                "run as root, and leave the thread's affinity whole: the kernel pins no deadline thread outside an exclusive cpuset"
            }
            (Policy::Deadline { .. }, libc::EBUSY) => {
                "ask for less runtime: the CPUs' deadline bandwidth is used up"
            }
            (Policy::Deadline { .. }, _) => "give runtime <= deadline <= period, each above 1 us",
            (_, libc::EPERM) => {
                "run as root, grant CAP_SYS_NICE, or raise RLIMIT_RTPRIO (an 'rtprio' line in /etc/security/limits.d); in a container or control group with CONFIG_RT_GROUP_SCHED also set cpu.rt_runtime_us (version 1), or boot with rt_group_sched=0 (version 2)"
            }
            _ => "report this as a defect",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Fifo(priority) => write!(out, "SCHED_FIFO {priority}"),
            Policy::RoundRobin(priority) => write!(out, "SCHED_RR {priority}"),
            Policy::Deadline { runtime_ns, deadline_ns, period_ns } => {
                write!(out, "SCHED_DEADLINE {runtime_ns}:{deadline_ns}:{period_ns} ns")
            }
            Policy::Other => out.write_str("SCHED_OTHER"),
            Policy::Batch => out.write_str("SCHED_BATCH"),
            Policy::Idle => out.write_str("SCHED_IDLE"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_back_as_it_was_set() {
        std::thread::spawn(|| {
            for policy in [Policy::Batch, Policy::Other, Policy::Fifo(7), Policy::RoundRobin(99)] {
                match policy.apply(false) {
                    Ok(()) => assert_eq!(Policy::current(), Ok(policy)),
                    Err(error) => {
                        assert!(
                            policy.priority().is_some(),
                            "only real-time policies need a privilege: {error}"
                        );
                        assert_eq!(error.errno, libc::EPERM, "{error}");
                    }
                }
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn an_unknown_policy_and_a_wrong_priority_name_the_cure() {
        let unknown = Policy::named("fif", 80, (0, 0, 0)).unwrap_err().to_string();
        assert_eq!(
            unknown,
            "cannot use policy 'fif': there is none of that name; choose one of fifo, rr, deadline, other, batch, idle"
        );
        let wrong = Policy::named("fifo", 100, (0, 0, 0)).unwrap_err().to_string();
        assert_eq!(wrong, "cannot use priority 100 with fifo: it is not 1 to 99; choose 1 to 98");
    }
}
