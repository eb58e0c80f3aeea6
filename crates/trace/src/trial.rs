// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trial of a source before use: a thread of this program sleeps and is woken a few times. The source
//! must report its stays, the due times of its timers, its waker, and the kernel functions at a wakeup after
//! which it had to wait.
//!
//! Versions of kernels do not decide: `threads.bpf.c` reads structures that change between versions, and any
//! kernel on which the trial succeeds is good. Thread and waker share a CPU that no followed loop used last,
//! so that the waker can run on after a wakeup. It takes some 100 ms.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use cause::names::Names;
use cause::policy;
use rt::clock::{monotonic_ns, timespec};
use rt::{Policy, thread};
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::ClockId;

use crate::bpf::ThreadWatch;
use crate::choice::SourceChoice;
use crate::live::LiveTrace;
use crate::record::{Stay, ThreadEvent, ThreadRecord};
use crate::source::RecordSource;
use crate::{Error, Result};

const WHAT: &str = "watch a program's threads";

/// A slow machine gets another attempt.
const ATTEMPTS: usize = 3;

const SLEEPS: usize = 8;
const SLEEP_NS: u64 = 2_000_000;

/// The number of wakeups; how long the waker runs on after each, and rests before it.
const WAKEUPS: usize = 8;
const GOES_ON_NS: u64 = 300_000;
const RESTS: Duration = Duration::from_millis(2);

/// After a longer wait a stack must be reported: the BPF part's limit of 20 us, with a margin.
const WAITED_NS: u64 = 100_000;

/// The longest wait for a thread to get its CPU. In an emulator on a busy host that takes long.
const PATIENCE: Duration = Duration::from_secs(10);

/// The events that the thread itself knows.
#[derive(Debug, Clone, Default)]
struct Happened {
    thread: u32,
    waker: u32,
    /// When its sleeps were due.
    due_ns: Vec<u64>,
    /// When it was woken, and how long it then waited for its CPU.
    woken: Vec<Wakeup>,
}

/// A wakeup, by the clocks of the two threads.
#[derive(Debug, Clone, Copy)]
struct Wakeup {
    from_ns: u64,
    to_ns: u64,
    waited_ns: u64,
}

impl Wakeup {
    fn is(&self, stay: &Stay) -> bool {
        stay.woken_ns.is_some_and(|woken_ns| (self.from_ns..=self.to_ns).contains(&woken_ns))
    }
}

/// Starts the source of the choice, and tries it on a CPU outside of `avoided`, if there is one. Without a
/// choice it is tracefs where the BPF part is refused, and says why.
pub fn start(choice: SourceChoice, names: &Names, avoided: &[u32]) -> Result<RecordSource> {
    let root = Path::new("/");
    let bpf = || {
        policy::healthy(root, WHAT)?;
        let taint_before = policy::taint(root);
        let tried = tried(RecordSource::Bpf(Box::new(ThreadWatch::load(names)?)), "BPF part", avoided);
        policy::unharmed(root, WHAT, taint_before)?;
        tried
    };
    let tracefs = || {
        let live = LiveTrace::start(root, names)?;
        tried(RecordSource::Live(Box::new(live)), "source of trace events", avoided)
    };
    match choice {
        SourceChoice::Bpf => bpf(),
        SourceChoice::Tracefs => tracefs(),
        SourceChoice::Auto => bpf().or_else(|refused| {
            let Ok(mut source) = tracefs() else { return Err(refused) };
            source.lacks(format!("the BPF part, which tells more: {}; {}", refused.why, refused.cure));
            Ok(source)
        }),
    }
}

/// The source that passes its trial.
fn tried(mut source: RecordSource, name: &str, avoided: &[u32]) -> Result<RecordSource> {
    match attempt(&mut source, avoided)? {
        Ok(None) => {}
        Ok(Some(lacking)) => {
            let why = format!("in its trial the {name} did not report {lacking}");
            let cure = "report this with the kernel's version, or use another kernel";
            return Err(Error::new(WHAT, why, cure));
        }
        Err(why) => source.lacks(format!("the trial of the {name}: {why}")),
    }
    Ok(source)
}

/// Reasons for a partial trial.
type Trying<T> = std::result::Result<T, String>;

/// The events that it did not report; the inner error is a reason why it cannot be tried.
fn attempt(source: &mut RecordSource, avoided: &[u32]) -> Result<Trying<Option<&'static str>>> {
    let own = thread::affinity();
    let cpu = own.iter().find(|cpu| !avoided.contains(cpu)).or(own.first()).copied().unwrap_or(0);
    let mut lacking = None;
    for _ in 0..ATTEMPTS {
        let watch = |thread| source.watch(thread).and_then(|()| source.arm());
        let happened = match provoke(cpu, watch)? {
            Ok(happened) => happened,
            Err(why) => return Ok(Err(why)),
        };
        lacking = untold(&happened, &source.take_all(), source.has_calls());
        if lacking.is_none() {
            break;
        }
    }
    Ok(Ok(lacking))
}

/// The first event that happened and is not in the records.
fn untold(happened: &Happened, records: &[ThreadRecord], has_calls: bool) -> Option<&'static str> {
    let own = || records.iter().filter(|record| record.thread == happened.thread);
    let stays = || {
        own().filter_map(|record| match &record.kind {
            ThreadEvent::Stay(stay) => Some(&**stay),
            _ => None,
        })
    };
    let sleep = syscalls::Sysno::clock_nanosleep as u32;
    let is_sleep = |stay: &Stay| stay.leaving.sleeps && (!has_calls || stay.leaving.call == Some(sleep));
    if !stays().any(is_sleep) {
        return Some("a thread's stays on its CPU, and the system call in which it sleeps");
    }
    let is_due = |stay: &Stay| stay.waking.due_ns.is_some_and(|due_ns| happened.due_ns.contains(&due_ns));
    if !stays().any(is_due) {
        return Some("due times of timers");
    }
    let wakeup = |stay: &Stay| {
        let wakeup = happened.woken.iter().find(|wakeup| wakeup.is(stay))?;
        (stay.waking.waker == happened.waker).then_some(*wakeup)
    };
    if !happened.woken.is_empty() && !stays().any(|stay| wakeup(stay).is_some()) {
        return Some("the waker of a thread");
    }
    let has_stack = |stay: &Stay| {
        let is_of_it = |record: &&ThreadRecord| Some(record.at_ns) == stay.woken_ns;
        own().filter(is_of_it).any(|record| matches!(&record.kind, ThreadEvent::Stack(of) if !of.is_empty()))
    };
    let waited = |stay: &&Stay| wakeup(stay).is_some_and(|wakeup| wakeup.waited_ns > WAITED_NS);
    let mut waits = stays().filter(waited).peekable();
    if waits.peek().is_some() && !waits.any(has_stack) {
        return Some("the kernel functions at a wakeup");
    }
    None
}

/// A thread on `cpu` sleeps and is woken; calls `armed` with its number before. The inner error is a reason
/// why it cannot.
fn provoke(cpu: u32, armed: impl FnOnce(u32) -> Result<()>) -> Result<Trying<Happened>> {
    let ((say, said), (wake, wakes)) = (channel(), channel());
    let sleeper = std::thread::Builder::new().name("trial".into()).spawn(move || sleep(cpu, &say, &wakes));
    if let Err(why) = sleeper {
        return Ok(Err(format!("no thread can be started: {why}")));
    }
    let thread = match hear(&said) {
        Ok(Said::Is(thread)) => thread,
        Ok(_) => return Ok(Err("its thread gave an unexpected answer".into())),
        Err(why) => return Ok(Err(why)),
    };
    armed(thread)?;
    let (tell, told) = channel();
    let waker = std::thread::Builder::new().name("trial-waker".into());
    let waker = waker.spawn(move || tell.send(wake_again(cpu, thread, &wake, &said)));
    if let Err(why) = waker {
        return Ok(Err(format!("no thread can be started: {why}")));
    }
    // It waits for the other thread as often as twice, and rests.
    Ok(told.recv_timeout(3 * PATIENCE).map_err(|_| starved()).and_then(|happened| happened))
}

/// The thread's messages.
enum Said {
    Is(u32),
    Refused(String),
    /// When its sleeps were due.
    Slept(Vec<u64>),
    /// When it ran after each wakeup.
    Ran(Vec<u64>),
}

fn hear(said: &Receiver<Said>) -> Trying<Said> {
    match said.recv_timeout(PATIENCE) {
        Ok(Said::Refused(why)) => Err(why),
        Ok(said) => Ok(said),
        Err(_) => Err(starved()),
    }
}

fn starved() -> String {
    format!("another thread had the CPU for {PATIENCE:?}")
}

/// The watched thread. As a batch thread it does not preempt its waker.
fn sleep(cpu: u32, say: &Sender<Said>, wakes: &Receiver<()>) {
    let placed = thread::set_affinity(&[cpu]).and_then(|()| Policy::Batch.apply(false));
    let first = placed.map_or_else(|error| Said::Refused(error.to_string()), |()| Said::Is(thread::id()));
    let is_refused = matches!(first, Said::Refused(_));
    // The first message lets it begin: it is watched then.
    if say.send(first).is_err() || is_refused || wakes.recv().is_err() {
        return;
    }
    let mut due_ns = Vec::with_capacity(SLEEPS);
    while due_ns.len() < SLEEPS {
        let due = monotonic_ns() + SLEEP_NS;
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &timespec(due));
        due_ns.push(due);
    }
    if say.send(Said::Slept(due_ns)).is_err() {
        return;
    }
    let mut ran = Vec::with_capacity(WAKEUPS);
    while wakes.recv().is_ok() {
        ran.push(monotonic_ns());
        if ran.len() == WAKEUPS {
            break;
        }
    }
    let _ = say.send(Said::Ran(ran));
}

/// The thread that wakes it.
fn wake_again(cpu: u32, thread: u32, wake: &Sender<()>, said: &Receiver<Said>) -> Trying<Happened> {
    let text = |error: rt::Error| error.to_string();
    thread::set_affinity(&[cpu]).and_then(|()| Policy::Other.apply(false)).map_err(text)?;
    let waker = thread::id();
    let ended = |_| "its thread has ended".to_string();
    wake.send(()).map_err(ended)?;
    let Said::Slept(due_ns) = hear(said)? else { return Err("its thread gave an unexpected answer".into()) };
    let mut sent = Vec::with_capacity(WAKEUPS);
    for _ in 0..WAKEUPS {
        std::thread::sleep(RESTS);
        let sleeps = sleeps_now(thread);
        let from_ns = monotonic_ns();
        wake.send(()).map_err(ended)?;
        let to_ns = monotonic_ns();
        while monotonic_ns() < to_ns + GOES_ON_NS {
            std::hint::spin_loop();
        }
        sent.push((sleeps, from_ns, to_ns));
    }
    let Said::Ran(ran) = hear(said)? else { return Err("its thread gave an unexpected answer".into()) };
    let woken =
        sent.into_iter().zip(ran).filter(|((slept, ..), _)| *slept).map(|((_, from_ns, to_ns), ran)| {
            Wakeup { from_ns, to_ns, waited_ns: ran.saturating_sub(to_ns) }
        });
    Ok(Happened { thread, waker, due_ns, woken: woken.collect() })
}

/// Whether a thread of this process sleeps.
fn sleeps_now(thread: u32) -> bool {
    let stat = untrusted::text(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

#[cfg(test)]
mod tests;
