// SPDX-License-Identifier: MIT OR Apache-2.0
//! What interrupts, and how a collector should call it. The lab's storms do most of it, a round at a time.

use std::fs::{self, File};
use std::io::Read;
use std::time::Duration;

use evidence::cause::{Cause, Kind};
use lab::guest::storm::{self, Context};
use rand::SeedableRng;
use rt::Policy;
use rt::clock::monotonic_ns;
use rt::setup::Setup;

use super::looks::CPU;

/// What came of an attempt.
type Done = Result<(), String>;

/// One round.
pub type Rounds<'a> = &'a mut dyn FnMut() -> Done;

/// What repeats rounds.
pub type Repeat<'a> = &'a mut dyn FnMut(Rounds<'_>) -> Done;

/// One round of the interrupted thread's own.
pub type Own = Box<dyn FnMut() -> Done>;

/// How an interruption is made.
pub enum Make {
    /// By the interrupted thread itself: what it does.
    Inside(fn() -> Result<Own, String>),
    /// By another thread, which hands a round to what repeats it.
    Beside(fn(Repeat<'_>) -> Done),
}

/// A kind of interruption.
pub struct Source {
    /// Its name.
    pub name: &'static str,
    /// What a user should read.
    pub expected: &'static str,
    /// Whether a cause is that.
    pub is_right: fn(&Cause) -> bool,
    /// Whether it has a sender, which is the thread that makes it.
    pub has_sender: bool,
    /// Whether the loop runs as an ordinary thread: a real-time one would hold the interruption back.
    pub is_other: bool,
    /// Whether another collector is at work at the same time, as of another run.
    pub is_watched_twice: bool,
    /// How it is made.
    pub make: Make,
}

fn is(cause: &Cause, kind: Kind, name: &str) -> bool {
    cause.kind == kind && cause.name.contains(name)
}

/// All of them.
pub const ALL: &[Source] = &[
    Source {
        name: "FIFO hog",
        expected: "thread `hog`",
        is_right: |cause| is(cause, Kind::Thread, "hog"),
        has_sender: false,
        is_other: false,
        is_watched_twice: false,
        make: Make::Beside(hog),
    },
    Source {
        name: "membarrier storm",
        expected: "IPI `ipi_mb`, sender",
        is_right: |cause| is(cause, Kind::Ipi, "ipi_mb"),
        has_sender: true,
        is_other: false,
        is_watched_twice: false,
        make: Make::Beside(|repeat| storm("membarrier-own", repeat)),
    },
    Source {
        name: "the same beside another run",
        expected: "IPI `ipi_mb`, sender",
        is_right: |cause| is(cause, Kind::Ipi, "ipi_mb"),
        has_sender: true,
        is_other: false,
        is_watched_twice: true,
        make: Make::Beside(|repeat| storm("membarrier-own", repeat)),
    },
    Source {
        name: "mprotect shootdown",
        expected: "IPI `flush_tlb_func`, sender",
        is_right: |cause| is(cause, Kind::Ipi, "flush_tlb_func"),
        has_sender: true,
        is_other: false,
        is_watched_twice: false,
        make: Make::Beside(|repeat| storm("mprotect-own", repeat)),
    },
    Source {
        name: "munmap shootdown",
        expected: "IPI `flush_tlb_func`, sender",
        is_right: |cause| is(cause, Kind::Ipi, "flush_tlb_func"),
        has_sender: true,
        is_other: false,
        is_watched_twice: false,
        make: Make::Beside(|repeat| storm("munmap-own", repeat)),
    },
    Source {
        name: "static-key flips, schedstats",
        expected: "IPI `do_sync_core`, sender",
        is_right: |cause| is(cause, Kind::Ipi, "do_sync_core"),
        has_sender: true,
        is_other: false,
        is_watched_twice: false,
        make: Make::Beside(|repeat| storm("static-keys", repeat)),
    },
    Source {
        name: "static-key flips, tracing",
        expected: "IPI `do_sync_core`, sender",
        is_right: |cause| is(cause, Kind::Ipi, "do_sync_core"),
        has_sender: true,
        is_other: false,
        is_watched_twice: false,
        make: Make::Beside(|repeat| storm("tracepoints", repeat)),
    },
    Source {
        name: "network softirq",
        expected: "softirq `NET_RX`",
        is_right: |cause| is(cause, Kind::Softirq, "NET_RX"),
        has_sender: false,
        is_other: true,
        is_watched_twice: false,
        make: Make::Beside(network),
    },
    Source {
        name: "timer storm",
        expected: "timer `perf_swevent_hrtimer`",
        is_right: |cause| is(cause, Kind::Timer, "perf_swevent_hrtimer"),
        has_sender: false,
        is_other: false,
        is_watched_twice: false,
        make: Make::Beside(timers),
    },
    Source {
        name: "workqueue",
        expected: "workqueue `lru_add_drain_per_cpu`",
        is_right: |cause| is(cause, Kind::Workqueue, "lru_add_drain_per_cpu"),
        has_sender: false,
        is_other: true,
        is_watched_twice: false,
        make: Make::Beside(drain),
    },
    Source {
        name: "page faults",
        expected: "page fault",
        is_right: |cause| is(cause, Kind::Fault, ""),
        has_sender: false,
        is_other: false,
        is_watched_twice: false,
        make: Make::Inside(faults),
    },
    Source {
        name: "long system call",
        expected: "system call `read`",
        is_right: |cause| is(cause, Kind::Syscall, "read"),
        has_sender: false,
        is_other: false,
        is_watched_twice: false,
        make: Make::Inside(reads),
    },
];

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// Rounds of one of the lab's storms.
fn storm(name: &str, repeat: Repeat<'_>) -> Done {
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

/// A thread of a higher priority that keeps the CPU for a while.
fn hog(repeat: Repeat<'_>) -> Done {
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

/// Packets over the loopback, which the kernel is told to receive on the watched CPU.
fn network(repeat: Repeat<'_>) -> Done {
    fs::write("/sys/class/net/lo/queues/rx-0/rps_cpus", "2").map_err(|why| format!("rps_cpus: {why}"))?;
    storm("net-loopback", repeat)
}

/// An event of the watched CPU's clock that counts every 10 ms, for a while.
fn timers(repeat: Repeat<'_>) -> Done {
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

/// Something for each CPU's worker to drain, as dropping the caches asks for.
fn drain(repeat: Repeat<'_>) -> Done {
    repeat(&mut || fs::write("/proc/sys/vm/drop_caches", "1").map_err(text))
}

/// A page that was never touched.
fn faults() -> Result<Own, String> {
    // Not filled with zeroes: an allocator may do that by touching them.
    let mut pages = Vec::<u8>::with_capacity(4096 * 4096);
    Ok(Box::new(move || {
        if pages.len() + 4096 > pages.capacity() {
            return Err("no page is left".into());
        }
        pages.resize(pages.len() + 4096, 1);
        std::hint::black_box(&mut pages);
        Ok(())
    }))
}

/// A system call that takes its time.
fn reads() -> Result<Own, String> {
    let mut zeroes = File::open("/dev/zero").map_err(text)?;
    let mut into = vec![1u8; 1 << 20];
    Ok(Box::new(move || zeroes.read_exact(&mut into).map_err(text)))
}
