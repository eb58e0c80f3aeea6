// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sources of interruptions, with the causes that a collector should name. Most are the lab's storms, a
//! round at a time.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use evidence::cause::{Cause, CauseKind};
use lab::architecture::Architecture;
use lab::guest::storm::{self, Context};
use lab::scope;
use rand::SeedableRng;
use rt::Policy;
use rt::clock::monotonic_ns;
use rt::setup::Setup;

/// The watched CPU of a guest of two.
pub const CPU: u32 = 1;

/// The result of an attempt.
type Attempt = Result<(), String>;

/// One round.
pub type Rounds<'a> = &'a mut dyn FnMut() -> Attempt;

/// Repeats rounds.
pub type Repeat<'a> = &'a mut dyn FnMut(Rounds<'_>) -> Attempt;

/// One round in the interrupted thread itself.
pub type OwnRound = Box<dyn FnMut() -> Attempt>;

/// The method of an interruption.
pub enum Method {
    /// The interrupted thread itself runs this.
    Inside(fn() -> Result<OwnRound, String>),
    /// Another thread runs this, which passes a round to the repeater.
    Beside(fn(Repeat<'_>) -> Attempt),
}

/// A kind of interruption.
pub struct Interruption {
    /// Its name.
    pub name: &'static str,
    /// The cause that a user should read.
    pub expected: &'static str,
    /// The kinds of expected causes and a part of their names; one of them suffices.
    right: &'static [(CauseKind, &'static str)],
    /// Whether it has a sender, which is the thread that makes it.
    pub has_sender: bool,
    /// Whether the loop runs as an ordinary thread: a real-time one would delay the interruption.
    pub is_other: bool,
    /// Whether another run's collector is active at the same time.
    pub is_watched_twice: bool,
    /// Its method.
    pub make: Method,
}

impl Interruption {
    const fn new(
        name: &'static str,
        expected: &'static str,
        right: &'static [(CauseKind, &'static str)],
        make: Method,
    ) -> Interruption {
        let (has_sender, is_other, is_watched_twice) = (false, false, false);
        Interruption { name, expected, right, has_sender, is_other, is_watched_twice, make }
    }

    /// Whether a cause is the expected one.
    pub fn is_right(&self, cause: &Cause) -> bool {
        self.right.iter().any(|(kind, named)| cause.kind == *kind && cause.name.contains(named))
    }
}

/// An IPI of one of the lab's storms: it has a sender.
macro_rules! ipi {
    ($name:literal, $function:literal, $storm:literal) => {{
        let expected = concat!("IPI `", $function, "`, sender");
        let make = Method::Beside(|repeat| storm($storm, repeat));
        let one = Interruption::new($name, expected, &[(CauseKind::Ipi, $function)], make);
        Interruption { has_sender: true, ..one }
    }};
}

/// All of them.
pub const ALL: &[Interruption] = &[
    Interruption::new("FIFO hog", "thread `hog`", &[(CauseKind::Thread, "hog")], Method::Beside(hog)),
    ipi!("membarrier storm", "ipi_mb", "membarrier-own"),
    Interruption {
        is_watched_twice: true,
        ..ipi!("the same beside another run", "ipi_mb", "membarrier-own")
    },
    ipi!("mprotect shootdown", "flush_tlb_func", "mprotect-own"),
    ipi!("munmap shootdown", "flush_tlb_func", "munmap-own"),
    ipi!("static-key flips, schedstats", "do_sync_core", "static-keys"),
    ipi!("static-key flips, tracing", "do_sync_core", "tracepoints"),
    Interruption {
        is_other: true,
        ..Interruption::new(
            "network softirq",
            "softirq `NET_RX`; with PREEMPT_RT thread `backlog_napi`",
            &[(CauseKind::Softirq, "NET_RX"), (CauseKind::Kthread, "backlog_napi")],
            Method::Beside(network),
        )
    },
    Interruption::new(
        "timer storm",
        "timer `perf_swevent_hrtimer`",
        &[(CauseKind::Timer, "perf_swevent_hrtimer")],
        Method::Beside(timers),
    ),
    Interruption {
        is_other: true,
        ..Interruption::new(
            "device",
            "IRQ of the console, or its thread",
            &[
                (CauseKind::Irq, "tty"),
                (CauseKind::IrqThread, "tty"),
                (CauseKind::Irq, "uart"),
                (CauseKind::IrqThread, "uart"),
            ],
            Method::Beside(device),
        )
    },
    Interruption {
        is_other: true,
        ..Interruption::new(
            "workqueue",
            "workqueue `refresh_vm_stats`",
            &[(CauseKind::Workqueue, "refresh_vm_stats")],
            Method::Beside(refresh),
        )
    },
    Interruption::new("page faults", "page fault", &[(CauseKind::Fault, "")], Method::Inside(faults)),
    Interruption::new(
        "long system call",
        "system call `read`",
        &[(CauseKind::Syscall, "read")],
        Method::Inside(reads),
    ),
];

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// Rounds of one of the lab's storms.
fn storm(name: &str, repeat: Repeat<'_>) -> Attempt {
    let kind = storm::kind(name).ok_or("there is no such storm")?;
    let mut context = Context {
        target: CPU,
        measured: [CPU].into_iter().collect(),
        random: SeedableRng::seed_from_u64(1),
        rounds: 1,
    };
    let mut storm = (kind.ready)(&mut context).map_err(text)?;
    let mut rounds = 0;
    repeat(&mut || {
        rounds += 1;
        storm.round(&mut context).map_err(text)
    })?;
    storm.end(rounds).map(drop).map_err(text)
}

/// A thread of a higher priority that occupies the CPU for a while.
fn hog(repeat: Repeat<'_>) -> Attempt {
    fs::write("/proc/thread-self/comm", "hog").map_err(text)?;
    Setup { cpus: vec![CPU], policy: Policy::Fifo(99), lock_memory: false }.apply().map_err(text)?;
    repeat(&mut || {
        let until_ns = monotonic_ns() + 300_000;
        while monotonic_ns() < until_ns {
            std::hint::spin_loop();
        }
        Ok(())
    })
}

/// Packets over the loopback, which the kernel receives on the watched CPU.
fn network(repeat: Repeat<'_>) -> Attempt {
    fs::write("/sys/class/net/lo/queues/rx-0/rps_cpus", "2").map_err(|why| format!("rps_cpus: {why}"))?;
    storm("net-loopback", repeat)
}

/// An event of the watched CPU's clock that counts every 10 ms, for a while.
fn timers(repeat: Repeat<'_>) -> Attempt {
    let kind = storm::kind("timers").ok_or("there is no such storm")?;
    let mut context = Context {
        target: CPU,
        measured: [CPU].into_iter().collect(),
        random: SeedableRng::seed_from_u64(1),
        rounds: 1,
    };
    repeat(&mut || {
        let mut storm = (kind.ready)(&mut context).map_err(text)?;
        storm.round(&mut context).map_err(text)?;
        std::thread::sleep(Duration::from_millis(25));
        storm.end(1).map(drop).map_err(text)
    })
}

/// Bytes for the console, whose interrupt is sent to the watched CPU.
fn device(repeat: Repeat<'_>) -> Attempt {
    let numbers = fs::read_dir("/proc/irq").map_err(text)?.flatten();
    let is_console = |folder: &Path| {
        let actions = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names = actions.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.any(|name| name.contains("tty") || name.contains("uart"))
    };
    let console = scope::console(Architecture::of_this_program());
    // It has its interrupt only while it is open.
    let mut terminal = File::options().write(true).open(format!("/dev/{console}")).map_err(text)?;
    let folder = numbers.map(|entry| entry.path()).find(|folder| is_console(folder));
    let folder = folder.ok_or("the console has no interrupt")?;
    fs::write(folder.join("smp_affinity_list"), CPU.to_string()).map_err(text)?;
    repeat(&mut || terminal.write_all(b"# a line for an interrupt's sake\n").map_err(text))
}

/// Work for each CPU's worker, requested regardless of the CPU's activity. (Dropping the caches requests it
/// only from a CPU with filled batches, and a loop that reads the clock fills none.)
fn refresh(repeat: Repeat<'_>) -> Attempt {
    repeat(&mut || fs::read("/proc/sys/vm/stat_refresh").map(drop).map_err(text))
}

/// A page that is touched for the first time.
fn faults() -> Result<OwnRound, String> {
    // A huge page is one fault. A kernel with PREEMPT_RT has none.
    let _ = fs::write("/sys/kernel/mm/transparent_hugepage/enabled", "never");
    // The allocator may have touched its first memory before: only the end is certainly untouched.
    let mut pages = Vec::<u8>::with_capacity(64 << 20);
    pages.resize(48 << 20, 1);
    Ok(Box::new(move || {
        if pages.len() + 4096 > pages.capacity() {
            return Err("no page is left".into());
        }
        pages.resize(pages.len() + 4096, 1);
        std::hint::black_box(&mut pages);
        Ok(())
    }))
}

/// A long system call.
fn reads() -> Result<OwnRound, String> {
    let mut zeroes = File::open("/dev/zero").map_err(text)?;
    let mut into = vec![1u8; 1 << 20];
    Ok(Box::new(move || zeroes.read_exact(&mut into).map_err(text)))
}
