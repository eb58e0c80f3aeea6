// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles between two places of a program that the user names: compared with the program's own stamps in
//! number, order and time.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rt::clock::monotonic_ns;
use trace::boundary::{CycleBounds, PlaceName};
use trace::cycle::LoopCycle;
use trace::follow::{Follower, LoopChoice};

use crate::truth::build::{program, steps};
use crate::truth::run::{cannot_watch, one_at_a_time};
use crate::truth::stamps::read;
use crate::truth::{Language, Truth, share};

const PERIOD_US: u64 = 2_000;
/// The longest time that a program runs, and that it is watched.
const CYCLES: u64 = 50_000;
const ENOUGH: usize = 500;

/// Begin and end of cycles.
fn bounds(begin: &str, end: Option<&str>) -> CycleBounds {
    let place = |text: &str| text.parse::<PlaceName>().expect("a place");
    CycleBounds::new(place(begin), end.map(place)).expect("two places")
}

/// The records of a program that has ended.
struct Seen {
    truth: Truth,
    cycles: Vec<LoopCycle>,
    attached_ns: u64,
    waits_with: String,
    period_ns: u64,
    has_grid: bool,
    notes: Vec<String>,
}

/// A program that has begun, and the file of its stamps.
struct Going {
    child: Child,
    stamps: std::path::PathBuf,
}

impl Going {
    fn start(is_c: bool, way: &str) -> Option<Going> {
        Going::start_as(is_c, way, |command| command)
    }

    /// The same, with a command made from the program's.
    fn start_as(is_c: bool, way: &str, made: impl FnOnce(Command) -> Command) -> Option<Going> {
        let skipped = |why: String| println!("skipped: {why}");
        if let Some(why) = cannot_watch() {
            skipped(why);
            return None;
        }
        let stamps = std::env::temp_dir().join(format!("isolator-steps-{}", std::process::id()));
        let mut command = made(steps(is_c).map_err(skipped).ok()?);
        command.arg(way).args([PERIOD_US, CYCLES].map(|number| number.to_string())).arg(&stamps);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let output = child.stdout.take().expect("the output is a pipe");
        BufReader::new(output)
            .read_line(&mut String::new())
            .expect("the program reports that it has started");
        Some(Going { child, stamps })
    }

    fn attach(&self, choice: &LoopChoice) -> trace::Result<Follower> {
        let follower = Follower::attach(self.child.id(), choice, "not used", &AtomicBool::new(false));
        follower.map(|follower| follower.expect("nothing stopped it"))
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.stamps);
    }
}

/// Follows a program until it ends; `None` if that cannot be done here.
fn follow(is_c: bool, way: &str, choice: &LoopChoice) -> Option<Seen> {
    // Shown where the test fails.
    println!("the way {way}");
    let mut going = Going::start(is_c, way)?;
    let mut follower = match going.attach(choice) {
        Err(error) if error.to_string().contains("built without clang") => {
            println!("skipped: {error}");
            return None;
        }
        follower => follower.expect("the program can be followed"),
    };
    let attached_ns = monotonic_ns();
    let mut cycles = Vec::new();
    loop {
        let poll = follower.poll();
        assert_eq!(poll.lost, 0, "records were lost");
        cycles.extend(poll.cycles.into_iter().map(|(_, cycle)| cycle));
        if cycles.len() >= ENOUGH {
            going.child.stdin = None;
        }
        if poll.is_over {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(going.child.wait().expect("it is this process' child").success());
    let text = std::fs::read_to_string(&going.stamps).expect("the program wrote its stamps");
    let [found] = follower.loops() else { panic!("{} loops", follower.loops().len()) };
    Some(Seen {
        truth: read(&text).pop().expect("it has a thread"),
        cycles,
        attached_ns,
        waits_with: found.waits_with.clone(),
        period_ns: found.period.get(),
        has_grid: found.has_grid,
        notes: follower.notes(),
    })
}

/// A cycle's beginning in the program.
fn begin_ns(cycle: &LoopCycle) -> u64 {
    cycle.begin.expect("it begins at a place of the program").at_ns
}

impl Seen {
    /// As many cycles as the program stamped from the first wait on that was seen whole, in its order, each
    /// at its stamps.
    fn is_true(&self) {
        let own = self.truth.cycles.iter().enumerate();
        let own: Vec<_> = own.filter(|(_, cycle)| cycle.begin_ns > self.attached_ns).collect();
        assert!(own.len() > 100, "{} cycles", own.len());
        let order: Vec<u64> = self.cycles.iter().map(begin_ns).collect();
        assert!(order.is_sorted() && self.cycles.iter().all(|cycle| begin_ns(cycle) < cycle.ended_ns));
        let first = self.truth.first_seen(self.attached_ns);
        let expected = own.iter().filter(|(n, _)| *n >= first).count();
        let mut rest = self.cycles.iter().peekable();
        let mut found = 0;
        for (n, own) in &own {
            while rest.next_if(|cycle| cycle.ended_ns <= own.begin_ns).is_some() {}
            let is_it = |cycle: &&LoopCycle| begin_ns(cycle) < own.end_ns && cycle.ended_ns > own.begin_ns;
            let Some(cycle) = rest.next_if(|cycle| is_it(cycle)) else { continue };
            found += usize::from(*n >= first);
            // The time of the probes, and of the program's clock readings, counts as execution.
            let cpu_ns = cycle.execution_ns;
            assert!(cpu_ns <= cycle.ended_ns - begin_ns(cycle), "{cycle:?}");
            let is_whole = cycle.remainder_ns() * 10 <= cycle.ended_ns - cycle.began_ns;
            assert!(is_whole && cycle.due_ns <= begin_ns(cycle), "{cycle:?}");
        }
        assert!(share(found, expected) >= 0.995, "{found} of {expected} found");
        let after = self.cycles.iter().filter(|cycle| begin_ns(cycle) > self.attached_ns).count();
        assert!(after <= own.len() + 1, "{after} cycles of {} of the program", own.len());
    }

    fn has_period(&self) {
        let off = self.period_ns.abs_diff(PERIOD_US * 1_000);
        assert!(off * 100 <= PERIOD_US * 1_000, "a period of {} ns", self.period_ns);
    }
}

fn of(begin: &str, end: Option<&str>) -> LoopChoice {
    LoopChoice { bounds: Some(bounds(begin, end)), ..LoopChoice::default() }
}

#[test]
fn finds_cycles_that_are_calls_of_a_function() {
    let _turn = one_at_a_time();
    let Some(seen) = follow(true, "return", &of("step", None)) else { return };
    seen.is_true();
    seen.has_period();
    assert_eq!((seen.waits_with.as_str(), seen.has_grid), ("begin steps-c!step", true));
    let due = "cycles of servo are due when the timer of clock_nanosleep (absolute, CLOCK_MONOTONIC) is";
    assert!(seen.notes.iter().any(|note| note == due), "{:?}", seen.notes);
    // The timer's own time: on the program's grid.
    let on_grid =
        |pair: &[LoopCycle]| pair[1].due_ns.abs_diff(pair[0].due_ns).is_multiple_of(PERIOD_US * 1_000);
    let pairs = seen.cycles.len() - 1;
    assert!(share(seen.cycles.windows(2).filter(|pair| on_grid(pair)).count(), pairs) >= 0.98);
}

/// The same, of a period that is given.
fn with_period(choice: LoopChoice) -> LoopChoice {
    LoopChoice { period: (PERIOD_US * 1_000).try_into().ok(), ..choice }
}

#[test]
fn finds_cycles_between_the_named_places() {
    let _turn = one_at_a_time();
    // The way of the program, in C or Rust, its places, and what the follower says of it.
    let pair = || of("cycle_begin", Some("cycle_end"));
    let usdt = of("usdt:servo:begin", Some("usdt:steps-c:servo:end"));
    for (way, is_c, choice, words) in [
        ("pair", true, pair(), "begin steps-c!cycle_begin, end steps-c!cycle_end"),
        ("usdt", true, usdt, "begin usdt:servo:begin, end usdt:servo:end"),
        ("return", false, of("steps::servo::step", None), "begin steps!steps::servo::step"),
    ] {
        let Some(seen) = follow(is_c, way, &choice) else { continue };
        seen.is_true();
        seen.has_period();
        assert_eq!(seen.waits_with, words, "{way}");
    }
}

#[test]
fn notes_how_cycles_are_told_apart() {
    let _turn = one_at_a_time();
    let triggered = "cycles of servo are due when a futex (condition variable or semaphore) ends";
    let several = "cycles of servo are due the period after the one before began, or when they begin if that is earlier";
    for (way, choice, note) in [
        ("trigger", of("step", None), triggered),
        // Two calls after one wait are two cycles.
        ("several", with_period(of("step", None)), several),
        ("nested", of("step", None), "the outermost counts"),
        ("unended", of("cycle_begin", Some("cycle_end")), "did not end before the next one began"),
    ] {
        let Some(seen) = follow(true, way, &choice) else { continue };
        seen.is_true();
        let is_note =
            |said: &String| if note.starts_with("cycles ") { said == note } else { said.contains(note) };
        assert!(seen.notes.iter().any(is_note), "{way}: {:?}", seen.notes);
        if way == "trigger" {
            seen.has_period();
            assert!(!seen.has_grid, "{way}");
        }
    }
}

#[test]
fn finds_cycles_of_a_thread_that_never_sleeps() {
    let _turn = one_at_a_time();
    let Some(seen) = follow(true, "spin", &with_period(of("step", None))) else { return };
    seen.is_true();
    assert_eq!((seen.period_ns, seen.has_grid), (PERIOD_US * 1_000, false));
}

#[test]
fn two_followers_see_the_same_cycles() {
    let _turn = one_at_a_time();
    let Some(mut going) = Going::start(true, "return") else { return };
    let choice = of("step", None);
    let Ok(mut first) = going.attach(&choice) else { return };
    let mut second = going.attach(&choice).expect("two can");
    // Cycles that the first follower saw earlier.
    first.poll();
    let from_ns = monotonic_ns();
    let mut seen = [Vec::new(), Vec::new()];
    loop {
        let polls = [first.poll(), second.poll()];
        let is_over = polls[1].is_over;
        for (seen, poll) in seen.iter_mut().zip(polls) {
            let begins = poll.cycles.iter().map(|(_, cycle)| begin_ns(cycle));
            seen.extend(begins.filter(|ns| *ns > from_ns));
        }
        if seen[1].len() >= ENOUGH {
            going.child.stdin = None;
        }
        if is_over {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    seen[0].extend(first.poll().cycles.iter().map(|(_, cycle)| begin_ns(cycle)));
    going.child.wait().expect("it is this process' child");
    assert!(
        seen[1].len() >= ENOUGH && seen[0].len().abs_diff(seen[1].len()) <= 1,
        "{:?}",
        seen.map(|all| all.len())
    );
}

#[test]
fn refuses_impossible_cycles_in_one_line() {
    let _turn = one_at_a_time();
    let Some(going) = Going::start(true, "return") else { return };
    let refused = |begin: &str, end: Option<&str>| {
        let text = going.attach(&of(begin, end)).expect_err("it is refused").to_string();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    let first = refused("stepp", None);
    if first.contains("built without clang") {
        return println!("skipped: {first}");
    }
    let is = |text: &str, parts: &[&str]| assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    is(&first, &["there is no such function", "is step meant?"]);
    is(&refused("libnone.so:step", None), &["the process has mapped no such file of code", "steps-c"]);
    is(&refused("usdt:servo:begn", Some("usdt:servo:end")), &["no such USDT probe", "is servo:begin meant?"]);
    is(&refused("cycle_begin", None), &["no thread reached steps-c!cycle_begin", "in "]);
    let never = refused("step", Some("cycle_end"));
    is(&never, &["steps-c!step was reached", "steps-c!cycle_end never after it", "give an --end"]);
}

#[test]
fn probes_a_return_with_exceptions_only_on_request() {
    let _turn = one_at_a_time();
    if cannot_watch().is_some() {
        return;
    }
    let Ok(mut command) = program(Language::Cpp) else { return println!("skipped: it needs c++") };
    let stamps = std::env::temp_dir().join(format!("isolator-steps-{}", std::process::id()));
    command.args(["sleep-until", "4000", "100000"]).arg(&stamps).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let output = child.stdout.take().expect("the output is a pipe");
    BufReader::new(output).read_line(&mut String::new()).expect("the program reports that it has started");
    let going = Going { child, stamps };
    let refused = |end| going.attach(&of("main", end)).expect_err("it is refused").to_string();
    let unasked = refused(None);
    if unasked.contains("built without clang") {
        return println!("skipped: {unasked}");
    }
    assert!(
        unasked.starts_with("cannot end cycles where sleeps-cpp!main returns: an exception"),
        "{unasked}"
    );
    assert!(unasked.ends_with("or uretprobe:main where that cannot be"), "{unasked}");
    let asked = refused(Some("uretprobe:main"));
    assert!(asked.contains("no thread reached sleeps-cpp!main"), "{asked}");
}

/// The error for a place at which cycles shall begin.
fn refused(going: &Going, begin: &str) -> String {
    let text = going.attach(&of(begin, None)).expect_err("it is refused").to_string();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn a_function_of_several_files_needs_its_file() {
    let _turn = one_at_a_time();
    let folder = tempfile::tempdir().expect("a folder");
    let (source, library) = (folder.path().join("more.c"), folder.path().join("libmore.so.1"));
    std::fs::write(&source, "int step(void) { return 0; }\n").expect("the folder can be written to");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    if !built.is_ok_and(|status| status.success()) {
        return println!("skipped: it needs cc");
    }
    let preloaded = |mut command: Command| {
        command.env("LD_PRELOAD", &library);
        command
    };
    let Some(going) = Going::start_as(true, "return", preloaded) else { return };
    let text = refused(&going, "step");
    if text.contains("built without clang") {
        return println!("skipped: {text}");
    }
    let both = "libmore.so.1 and steps-c have this function; write libmore.so.1:step or steps-c:step";
    assert!(text.ends_with(both), "{text}");
    let text = refused(&going, "libmore:step");
    assert!(text.contains("no thread reached libmore.so.1!step"), "{text}");
    let follower = going.attach(&of("steps-c:step", None)).expect("it is found");
    assert_eq!(follower.loops()[0].waits_with, "begin steps-c!step");
}

#[test]
fn the_error_names_a_stripped_program() {
    let _turn = one_at_a_time();
    let folder = tempfile::tempdir().expect("a folder");
    let bare = folder.path().join("bare");
    let stripped = |command: Command| {
        let mut strip = Command::new("strip");
        let status = strip.arg("-o").arg(&bare).arg(command.get_program()).status();
        assert!(status.is_ok_and(|status| status.success()), "strip comes with cc");
        Command::new(&bare)
    };
    let Some(going) = Going::start_as(true, "return", stripped) else { return };
    let text = refused(&going, "cycle_begin");
    if text.contains("built without clang") {
        return println!("skipped: {text}");
    }
    assert!(
        text.contains("bare was stripped of the names of its functions; install its debug symbols"),
        "{text}"
    );
}
