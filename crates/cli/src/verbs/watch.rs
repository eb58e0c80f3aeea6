// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator watch`: interrupt rates of the isolated CPUs from the kernel's counters; with `--senders` also
//! the senders of their IPIs, from a collector of its own.

use std::error::Error;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use cause::names::Names;
use cause::rates::{WatchDocument, Watching};
use cause::{Collect, Depth, Started};
use evidence::cause::Choice;
use inspect::counters::Counters;
use machine::{CpuSet, Snapshot};
use report::terminal::{Style, WatchView};
use report::watch::WatchColumn;
use run::control;
use untrusted::text::screen;

use crate::args::WatchArgs;
use crate::judged::title;
use crate::keys::{Key, Keys, Waited};
use crate::live::page::LivePage;
use crate::metrics::Metrics;
use crate::next;
use crate::outcome::{Outcome, VerbResult};
use crate::output::{color_allowed, draw, note, print, terminal_moves};
use crate::signals::set_on_signals;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Reading the counters takes a part of this on a wide machine.
const SHORTEST: Duration = Duration::from_millis(10);

/// A signal waits no longer than this.
const SLICE: Duration = Duration::from_millis(50);

/// How wide text is that goes to no terminal.
const WIDTH: usize = 100;

pub fn run(args: &WatchArgs) -> VerbResult {
    sensible(args)?;
    let machine = inspect::read(Path::new("/"));
    let isolated = machine.isolation.set_apart();
    let cpus = watched(args, &machine, &isolated)?;
    let elsewhere = control::house_keeping(&machine, &cpus);
    if !elsewhere.is_empty() {
        // Where this fails it only watches from a CPU that it watches too.
        let _ = control::stay_on(&elsewhere);
    }
    let mut sinks = IntervalSinks::open(args)?;
    let stop = Arc::default();
    let page = args.live.map(|address| LivePage::serve(address, title(), Arc::clone(&stop))).transpose()?;
    let mut keys = sinks.screen.keys(&stop)?;
    if keys.is_none() {
        set_on_signals(&stop)?;
    }
    let mut senders = args.senders.then(|| Senders::over(&cpus, &machine)).transpose()?;
    let read = || Counters::read(Path::new("/"), &cpus);
    let first = read();
    if first.is_empty() {
        let why = first.unread().first().cloned().unwrap_or_else(|| "there are no counters".to_string());
        return Err(format!("cannot watch {cpus}: {why}; mount /proc").into());
    }
    let none_isolated = args.cpus.is_none() && isolated.and(&cpus).is_empty();
    if none_isolated && !args.quiet {
        note("no CPU is isolated here: watching all; see isolator tune plan");
    }
    let mut watching = Watching::from(first, &isolated);
    let (began, mut last) = (Instant::now(), Instant::now());
    let mut due = began + args.interval;
    let count = args.count.unwrap_or(u64::MAX);
    let mut number = 0;
    while number < count && wait(due, &stop, keys.as_mut(), &mut sinks.screen)? {
        let (now, counters) = (Instant::now(), read());
        let interval_ns = (now - last).as_nanos() as u64;
        last = now;
        let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let mut document = watching.next(counters, time, interval_ns);
        if let Some(senders) = &mut senders {
            senders.add_senders(&mut document)?;
        }
        number += 1;
        if let Some(page) = &page {
            let left = u32::try_from(count - number).ok().map(|left| args.interval.saturating_mul(left));
            page.watches(&document, began.elapsed(), left);
        }
        if !sinks.take(document)? {
            return Ok(Outcome::Done);
        }
        while due <= Instant::now() {
            due += args.interval;
        }
    }
    drop(keys);
    if let Some(page) = &page {
        page.end(format!("the watch ended after {number} intervals"));
    }
    if !matches!(sinks.screen, WatchScreen::Nothing) {
        print(&format!("next: {}\n", next::after_watch(&isolated.and(&cpus))))?;
    }
    Ok(Outcome::Done)
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

/// Waits until `due`, and does meanwhile what keys ask; false where it is to end.
fn wait(due: Instant, stop: &AtomicBool, keys: Option<&mut Keys>, screen: &mut WatchScreen) -> Result<bool> {
    let Some(keys) = keys else { return Ok(slept_until(due, stop)) };
    loop {
        match keys.wait(due, stop)? {
            Waited::Due => return Ok(true),
            Waited::Stop => return Ok(false),
            Waited::Key(Key::Char('q' | 'Q')) => return Ok(false),
            Waited::Key(key) => screen.take(key)?,
            Waited::Resumed => screen.begin_anew()?,
        }
    }
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
    /// Over what was drawn before.
    Drawn(Box<DrawnWatch>),
}

/// A screen that moves on a terminal.
#[derive(Default)]
struct DrawnWatch {
    view: WatchView,
    /// The interval that is shown, again after a key.
    document: Option<WatchDocument>,
    /// Lines that were drawn before, and the terminal's columns and lines then.
    drawn: usize,
    size: Option<(u16, u16)>,
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
            true => WatchScreen::Drawn(Box::default()),
            false => WatchScreen::Plain,
        };
        Ok(IntervalSinks { json, metrics, screen })
    }

    /// Hands an interval on; false if no reader is left.
    fn take(&mut self, document: WatchDocument) -> Result<bool> {
        if let Some(json) = &mut self.json {
            let line = untrusted::text::json(&serde_json::to_string(&document)?).into_owned() + "\n";
            if !read_on(json.write_all(line.as_bytes()).and_then(|()| json.flush()))? {
                return Ok(false);
            }
        }
        if let Some(metrics) = &self.metrics {
            metrics.set(report::prometheus::watch(&document))?;
        }
        self.screen.show(document)
    }
}

impl WatchScreen {
    /// The keys that move it, where there are any.
    fn keys(&mut self, stop: &Arc<AtomicBool>) -> Result<Option<Keys>> {
        let WatchScreen::Drawn(drawn) = self else { return Ok(None) };
        let keys = Keys::take(stop)?;
        if keys.is_some() {
            drawn.view = WatchView::with_keys();
        }
        Ok(keys)
    }

    /// Shows an interval; false if no reader is left.
    fn show(&mut self, document: WatchDocument) -> Result<bool> {
        match self {
            WatchScreen::Nothing => Ok(true),
            WatchScreen::Plain => {
                let style = Style { color: false, width: WIDTH };
                let text =
                    report::terminal::watch(&document, &mut WatchView::default(), style, usize::MAX) + "\n";
                written(&screen(&text, false))
            }
            WatchScreen::Drawn(drawn) => {
                drawn.document = Some(document);
                drawn.draw()
            }
        }
    }

    /// Does what a key asks.
    fn take(&mut self, key: Key) -> Result<()> {
        let WatchScreen::Drawn(drawn) = self else { return Ok(()) };
        let view = &mut drawn.view;
        match key {
            Key::Char('n') => view.sort_by(WatchColumn::Name),
            Key::Char('t') => view.sort_by(WatchColumn::Total),
            Key::Char('p') => view.sort_by(WatchColumn::PerSecond),
            Key::Char('r') => view.reverse(),
            Key::Left => view.sort_beside(false),
            Key::Right => view.sort_beside(true),
            Key::Up | Key::Char('k') => view.scroll(-1),
            Key::Down | Key::Char('j') => view.scroll(1),
            Key::PageUp => view.page(false),
            Key::PageDown | Key::Char(' ') => view.page(true),
            Key::Home => view.scroll(isize::MIN),
            Key::End => view.scroll(isize::MAX),
            Key::Char(_) => return Ok(()),
        }
        drawn.draw().map(drop)
    }

    /// Another program wrote on the terminal meanwhile.
    fn begin_anew(&mut self) -> Result<()> {
        let WatchScreen::Drawn(drawn) = self else { return Ok(()) };
        drawn.drawn = 0;
        drawn.draw().map(drop)
    }
}

impl DrawnWatch {
    fn draw(&mut self) -> Result<bool> {
        let Some(document) = &self.document else { return Ok(true) };
        let size = rt::thread::terminal_size(std::io::stdout());
        let (columns, lines) =
            size.map_or((WIDTH, usize::MAX), |(columns, lines)| (columns.into(), lines.into()));
        // A line that ends in the last column would take two.
        let style = Style { color: color_allowed(), width: columns.saturating_sub(1) };
        let text = report::terminal::watch(document, &mut self.view, style, lines.saturating_sub(1));
        let text: String = text.lines().flat_map(|line| [line, "\n"]).collect();
        let mut picture = String::new();
        if self.size.is_some_and(|before| Some(before) != size) {
            // The terminal has broken the lines anew: where they are now is unknown.
            picture.push_str("\u{1b}[H\u{1b}[2J");
            self.drawn = 0;
        }
        picture.push_str(&draw(self.drawn, &text, style.color));
        (self.drawn, self.size) = (text.lines().count(), size);
        written(&picture)
    }
}

/// Writes to standard output; false if no reader is left.
fn written(text: &str) -> Result<bool> {
    let mut stdout = std::io::stdout().lock();
    read_on(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// Whether a reader is left: a closed pipe is no error.
fn read_on(written: std::io::Result<()>) -> Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(evidence::Error::io("write", Path::new("standard output"), &error).into()),
    }
}
