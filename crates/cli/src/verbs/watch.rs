// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator watch`: interrupt rates of the isolated CPUs from the kernel's counters; with `--senders` also
//! the senders of their IPIs, from a collector of its own.

use std::error::Error;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use cause::names::Names;
use cause::rates::{WatchDocument, Watching};
use cause::{Collect, Depth, Started};
use evidence::cause::Choice;
use machine::counters::Counters;
use machine::{CpuSet, Snapshot};
use report::terminal::Style;
use run::control;
use untrusted::text::screen;

use crate::args::WatchArgs;
use crate::metrics::Metrics;
use crate::output::{Exit, VerbResult, color_allowed, draw, note, terminal_moves};
use crate::signals::stop_on_signals;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Reading the counters takes a part of this on a wide machine.
const SHORTEST: Duration = Duration::from_millis(10);

/// A signal waits no longer than this.
const SLICE: Duration = Duration::from_millis(50);

/// How wide text is that goes to no terminal.
const WIDTH: usize = 100;

pub fn run(args: &WatchArgs) -> VerbResult {
    sensible(args)?;
    let machine = machine::read(Path::new("/"));
    let isolated = machine.isolation.set_apart();
    let cpus = watched(args, &machine, &isolated)?;
    let elsewhere = control::house_keeping(&machine, &cpus);
    if !elsewhere.is_empty() {
        // Where this fails it only watches from a CPU that it watches too.
        let _ = control::stay_on(&elsewhere);
    }
    let mut sinks = IntervalSinks::open(args)?;
    let stop = stop_on_signals()?;
    let mut senders = args.senders.then(|| Senders::over(&cpus, &machine)).transpose()?;
    let read = || Counters::read(Path::new("/"), &cpus);
    let first = read();
    if first.is_empty() {
        let why = first.unread().first().cloned().unwrap_or_else(|| "there are no counters".to_string());
        return Err(format!("cannot watch {cpus}: {why}; mount /proc").into());
    }
    if args.cpus.is_none() && isolated.and(&cpus).is_empty() && !args.quiet {
        note("no CPU is isolated here: watching all; see isolator tune plan");
    }
    let mut watching = Watching::from(first, &isolated);
    let (began, mut last) = (Instant::now(), Instant::now());
    let mut due = began + args.interval;
    for _ in 0..args.count.unwrap_or(u64::MAX) {
        if !slept_until(due, &stop) {
            break;
        }
        let (now, counters) = (Instant::now(), read());
        let interval_ns = (now - last).as_nanos() as u64;
        last = now;
        let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let mut document = watching.next(counters, time, interval_ns);
        if let Some(senders) = &mut senders {
            senders.add_senders(&mut document)?;
        }
        if !sinks.take(&document)? {
            break;
        }
        while due <= Instant::now() {
            due += args.interval;
        }
    }
    Ok(Exit::Held)
}

fn sensible(args: &WatchArgs) -> Result<()> {
    if args.interval < SHORTEST {
        let shortest = humantime::format_duration(SHORTEST);
        return Err(format!("cannot watch every {:?}: reading the counters takes part of it; give --interval {shortest} or more", args.interval).into());
    }
    if args.count == Some(0) {
        return Err("cannot watch 0 intervals: there would be no output; give --count 1 or more".into());
    }
    Ok(())
}

/// A collector of the senders to the watched CPUs, and the names of the functions that they ask for.
struct Senders {
    collector: Box<dyn Collect>,
    names: Names,
}

impl Senders {
    fn over(cpus: &CpuSet, machine: &Snapshot) -> Result<Senders> {
        let asked = cause::WatchSpec { cpus: cpus.clone(), depth: Depth::Senders };
        match cause::start(Choice::Auto, &asked, machine)? {
            Started::Events(mut collector) => {
                // What its own start sent is not told.
                cpus.iter().try_for_each(|cpu| collector.take(cpu).map(drop))?;
                Ok(Senders { collector, names: Names::read(Path::new("/")) })
            }
            Started::Counters { because } => {
                let why = because.join("; ");
                Err(format!("cannot name senders: {why}; leave --senders out to see rates alone").into())
            }
        }
    }

    /// Adds who sent in the document's interval.
    fn add_senders(&mut self, document: &mut WatchDocument) -> Result<()> {
        let (mut sent, mut lost) = (Vec::new(), 0);
        for cpu in document.cpus.iter() {
            let (events, overwritten) = self.collector.take(cpu)?;
            sent.extend(cause::senders::rates(cpu, &events, &self.names, document.interval_ns));
            lost += overwritten;
        }
        sent.sort_by_key(|one| u64::MAX - one.count);
        document.senders = Some(sent);
        document.could_not_see.extend_from_slice(self.collector.could_not_see());
        document.could_not_see.extend(self.names.could_not_see());
        if lost > 0 {
            let line = format!("senders: {lost} events were lost; a shorter --interval keeps more");
            document.could_not_see.push(line);
        }
        Ok(())
    }
}

/// The CPUs asked for; else the isolated ones, else all.
fn watched(args: &WatchArgs, machine: &Snapshot, isolated: &CpuSet) -> Result<CpuSet> {
    let online = machine.online();
    if let Some(cpus) = &args.cpus {
        let absent = cpus.without(&online);
        if !absent.is_empty() {
            return Err(
                format!("cannot watch cpu {absent}: not online; choose from {online} with --cpus").into()
            );
        }
        return Ok(cpus.clone());
    }
    let isolated = isolated.and(&online);
    Ok(if isolated.is_empty() { online } else { isolated })
}

/// Sleeps; false where it was to stop.
fn slept_until(due: Instant, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::SeqCst) {
            return false;
        }
        match due.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => std::thread::sleep(left.min(SLICE)),
            _ => return true,
        }
    }
}

/// Where each interval goes.
struct IntervalSinks {
    json: Option<Box<dyn Write>>,
    metrics: Option<Metrics>,
    screen: WatchScreen,
}

enum WatchScreen {
    Nothing,
    /// One below the other.
    Plain,
    /// Over what was drawn before: so many lines.
    Drawn(usize),
}

impl IntervalSinks {
    fn open(args: &WatchArgs) -> Result<IntervalSinks> {
        let on_stdout = args.json.as_deref() == Some(Path::new("-"));
        let json: Option<Box<dyn Write>> = match &args.json {
            None => None,
            Some(_) if on_stdout => Some(Box::new(std::io::stdout())),
            Some(path) => {
                let file = untrusted::create(path).map_err(|e| evidence::Error::io("write", path, &e))?;
                Some(Box::new(file))
            }
        };
        let metrics = args.prometheus.as_deref().map(Metrics::open).transpose()?;
        let screen = match std::io::stdout().is_terminal() && terminal_moves() {
            _ if args.quiet || on_stdout => WatchScreen::Nothing,
            true => WatchScreen::Drawn(0),
            false => WatchScreen::Plain,
        };
        Ok(IntervalSinks { json, metrics, screen })
    }

    /// Hands an interval on; false if no reader is left.
    fn take(&mut self, document: &WatchDocument) -> Result<bool> {
        if let Some(json) = &mut self.json {
            let line = untrusted::text::json(&serde_json::to_string(document)?).into_owned() + "\n";
            if !read_on(json.write_all(line.as_bytes()).and_then(|()| json.flush()))? {
                return Ok(false);
            }
        }
        if let Some(metrics) = &self.metrics {
            metrics.set(report::prometheus::watch(document))?;
        }
        self.screen.show(document)
    }
}

impl WatchScreen {
    fn show(&mut self, document: &WatchDocument) -> Result<bool> {
        let (columns, lines) = rt::thread::terminal_size(std::io::stdout())
            .map_or((WIDTH, usize::MAX), |(columns, lines)| (columns.into(), lines.into()));
        let text = match self {
            WatchScreen::Nothing => return Ok(true),
            WatchScreen::Plain => {
                let style = Style { color: false, width: WIDTH };
                screen(&(report::terminal::watch(document, style, usize::MAX) + "\n"), false).into_owned()
            }
            WatchScreen::Drawn(drawn) => {
                // A line that ends in the last column would take two.
                let style = Style { color: color_allowed(), width: columns.saturating_sub(1) };
                let text = report::terminal::watch(document, style, lines.saturating_sub(1));
                let text: String = text.lines().flat_map(|line| [line, "\n"]).collect();
                let picture = draw(*drawn, &text, style.color);
                *drawn = text.lines().count();
                picture
            }
        };
        let mut stdout = std::io::stdout().lock();
        read_on(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
    }
}

/// Whether a reader is left: a closed pipe is no error.
fn read_on(written: std::io::Result<()>) -> Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(evidence::Error::io("write", Path::new("standard output"), &error).into()),
    }
}
