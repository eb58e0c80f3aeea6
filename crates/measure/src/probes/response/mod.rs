// SPDX-License-Identifier: MIT OR Apache-2.0
//! The response probe: an input edge to an output edge, on the measured CPU, by polling.
//!
//! ```text
//! generator   edge ─┐                       ┌─ sees the answer
//! input       ▁▁▁▁▁▁▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔│▔▔▔▔▔▔
//! responder         └► a poll ─ write ─┐    │
//! output      ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▔▔▔▔▔▔▔▔▔▔▔▔▔▔
//! ```
//! The polled place is a row's medium ([`Medium`]): memory, of this program or of a file (ivshmem); registers
//! of a board's GPIO ([`board`]); or, for contrast, lines of the kernel's, whose edges are waited for. What a
//! sample is depends on the measured CPU's role ([`ROLES`]), for a program sees no wire:
//!
//! - `both`: another CPU generates, and takes the time from its edge to the answer that it sees. Where that
//!   CPU itself stood still, which its samples cannot tell from a late answer, it says so.
//! - `generator`: the same on the measured CPU. With a wire from output to input it is the loop back: from
//!   the write to the level that is read, register, pin, wire and all. With another board in the wire's place
//!   it is that one's response.
//! - `responder`: an outside generator, whose edge is not seen here. A sample is the time from the last
//!   poll that saw no edge to the answer written (of lines: from the kernel's stamp of the edge), the most
//!   that this side took. From edge to edge is an oscilloscope's, or a generator's on another machine.
//!
//! # A row
//!
//! A program sees no wire. The meaning of a sample of `measure response` depends on the source of the edges;
//! each row's note states it.
//!
//! | edges come from | a sample is | and not |
//! |---|---|---|
//! | another CPU here (`both`, shared memory) | from the edge to the answer, as that CPU saw both | free of that CPU's own stalls, which the row's note counts |
//! | the measured CPU (`generator`) | from the write to the level that follows: with a wire from `--out` to `--in` the loop back through register and pin, with another machine in its place that one's response | split into the way there and back |
//! | outside (`responder`): a signal generator, ivshmem's other side | from the last poll that saw no edge to the answer written, the most that this side took | the wires: from edge to edge is an oscilloscope's |
//! | outside, through lines of the kernel | from the kernel's stamp of the edge, taken in its interrupt, to the answer written | the way from the wire to that interrupt |
//!
//! 1. **Refuse.** Board, lines, chip and file are opened before a bundle is begun. An address that belongs to
//!    no device or is memory of the machine is refused here, and so is a line that is in use according to the
//!    kernel.
//! 2. **Set up.** `response::pins` makes one line an input and the other an output, low, and gives
//!    back what it changed when the row ends. The data register of a board without set and clear is read and
//!    written back: no other program may drive a line of the same controller.
//! 3. **Poll.** One loop: read, compare, write (`response::poll`), in memory (`rt::registers`) or
//!    through registers by volatile accesses of 32 bits. Lines are the contrast: an interrupt, an event, a
//!    wakeup and two system calls.
//! 4. **Show.** The report lays all responses of a row over each other, from its histogram, so that a day has
//!    its one latest in the picture.
//!
//! In the lab the scope is the oscilloscope (`isolator lab run response`). The isolated CPU answers edges of
//! a housekeeping CPU through a signal, by the loop of 3. Each response is bounded in instructions of the CPU
//! that answers, from outside of the guest. The plugin is told the signal's address before the guest runs, so
//! a program maps its first signal always to the same one (`rt::registers::SIGNAL_AT`). On arm64 the machine
//! has a PL061, whose lines `lab::edges` drives and hears from outside, through QEMU's test protocol. The
//! scenario `registers` answers them by polling, `lines` through the kernel.
//!
//! In QEMU, `ivshmem-plain` is a signal between a guest (`--signal /sys/bus/pci/devices/ADDRESS/resource2
//! --role responder`) and its host (`--signal /dev/shm/FILE --role generator`), started in that order. The
//! lab does so in the scenario `ivshmem` (`lab::signal`): the host gives the edges. Where guests run on the
//! processor (mode `real`) its clock tells the times, as rows of their own; where they are translated the
//! scope counts instructions alone.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evidence::manifest::{Asked, Granted};
use rt::clock::{Calibration, monotonic_ns};
use rt::registers::{Registers, SIGNAL_APART};
use rt::{Error, Policy, Result};

use crate::pace::Pace;
use crate::probe::{HotLoop, LoopOutcome, Opened, Opening, Probe};
use crate::samples::Samples;
use crate::schedule::{Cycles, Schedule, Window};
use crate::watch::Seat;
use board::Board;
use generator::{Generator, GeneratorWork};
use lines::GpioLines;
use pins::Pins;
use poll::{GeneratorCounts, SignalEnd, SignalMemory};

pub mod board;
mod generator;
mod lines;
mod pins;
mod poll;

/// The probe that stands for whatever means its options name.
pub const PROBE: &str = "response";

/// How edges travel: a probe for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Another CPU's memory, or a file's.
    Shared,
    /// Registers of a board.
    Registers,
    /// Lines of the kernel's.
    Lines,
}

impl Medium {
    /// All of them, by the names of their probes.
    pub const NAMES: [(&str, Medium); 3] =
        [Medium::Shared.named(), Medium::Registers.named(), Medium::Lines.named()];

    /// The one of that probe.
    pub fn of(probe: &str) -> Option<Medium> {
        Medium::NAMES.iter().find(|(name, _)| *name == probe).map(|(_, medium)| *medium)
    }

    /// The probe's name.
    pub const fn probe(self) -> &'static str {
        match self {
            Medium::Shared => "response-shared",
            Medium::Registers => "response-registers",
            Medium::Lines => "response-lines",
        }
    }

    const fn named(self) -> (&'static str, Medium) {
        (self.probe(), self)
    }
}

/// The role of the measured CPU, by name.
pub const ROLES: [(&str, Role); 3] =
    [("both", Role::Both), ("responder", Role::Responder), ("generator", Role::Generator)];

/// The role of the measured CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The responder; the generator is here too.
    Both,
    /// The responder alone.
    Responder,
    /// The generator alone.
    Generator,
}

/// Where edges come from and go to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum EdgeMedium {
    /// Memory of this program.
    Own,
    /// Two words of a file.
    Signal(PathBuf, u64),
    /// Lines of a board, by its registers: read, driven.
    Registers(Box<Board>, u32, u32),
    /// Lines of a chip of the kernel's: read, driven.
    Lines(String, u32, u32),
}

/// The places that a row polls and drives, and the measured CPU's role in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wiring {
    by: EdgeMedium,
    role: Role,
}

/// The probe on one CPU.
#[derive(Debug, Clone)]
pub struct ResponseProbe {
    /// The places that are polled and driven.
    pub wiring: Wiring,
    /// The CPU that gives the edges, where it is one of this machine, and the policy of its thread.
    pub generator: Option<(u32, Policy)>,
    /// The counter's rate.
    pub clock: Calibration,
    /// Its period, in nanoseconds.
    pub period: NonZeroU64,
}

impl Probe for ResponseProbe {
    fn schedule(&self) -> Schedule {
        Schedule::Periodic(self.period)
    }

    fn open(self: Box<Self>, opening: &Opening<'_>) -> crate::Result<Opened> {
        let ResponseProbe { wiring, generator, clock, period } = *self;
        let (measured, mind_ns) = (opening.series.key.cpu, opening.series.threshold_ns);
        opening.of_cycles(period, move |samples| {
            let ready = ReadyResponse::new(&wiring, generator, measured)?;
            let edges_from = generator.map(|(cpu, _)| cpu);
            let seat = ready.seat();
            let ready = Some((ready, samples));
            Ok(Responder { ready, seat, edges_from, clock, period, mind_ns, outcome: LoopOutcome::default() })
        })
    }
}

/// The armed probe.
struct Responder {
    /// Until it has run.
    ready: Option<(ReadyResponse, Samples)>,
    /// The generator's thread, where that is one of this program.
    seat: Option<Arc<Seat>>,
    edges_from: Option<u32>,
    clock: Calibration,
    period: NonZeroU64,
    /// A longer absence of the generator from its CPU is noted.
    mind_ns: u64,
    outcome: LoopOutcome,
}

impl HotLoop for Responder {
    fn helpers(&self) -> Vec<Arc<Seat>> {
        self.seat.iter().cloned().collect()
    }

    fn add_to(&self, granted: &mut Granted) {
        granted.counter_hz = Some(self.clock.hz);
        granted.edges_from = self.edges_from;
    }

    fn run(&mut self, window: &Window, stop: &AtomicBool) {
        if let Some((ready, samples)) = self.ready.take() {
            self.outcome = ready.run(&window.cycles(self.period), &self.clock, self.mind_ns, samples, stop);
        }
    }

    fn ended(self: Box<Self>) -> LoopOutcome {
        self.outcome
    }
}

/// The media whose probes [`PROBE`] stands for where that is asked.
pub fn means(asked: &Asked) -> Vec<Medium> {
    let named = asked.response.clone().unwrap_or_default();
    let by_lines = [(Medium::Registers, named.board.is_some()), (Medium::Lines, named.chip.is_some())];
    let found = by_lines.iter().filter(|(_, is_named)| *is_named).map(|(medium, _)| *medium);
    let found = found.collect::<Vec<_>>();
    if found.is_empty() { vec![Medium::Shared] } else { found }
}

impl Wiring {
    /// The wiring that `asked` names for the probe of `medium`; an error where that makes no sense, with the
    /// option that would help.
    pub fn of(medium: Medium, asked: &Asked) -> Result<Wiring> {
        let named = asked.response.clone().unwrap_or_default();
        let refuse =
            |why: &str, cure: &str| Err(Error::new(format!("measure {}", medium.probe()), why, cure));
        let role = match named.role.as_deref() {
            None if medium == Medium::Shared => Role::Both,
            None => Role::Responder,
            Some(role) => match ROLES.iter().find(|(name, _)| *name == role) {
                Some((_, role)) => *role,
                None => {
                    let roles = ROLES.map(|(name, _)| name).join(", ");
                    return refuse(&format!("there is no role '{role}'"), &format!("choose from {roles}"));
                }
            },
        };
        if medium == Medium::Shared {
            if named.input.is_some() || named.output.is_some() {
                return refuse("shared memory has no lines", "give --in and --out with --board or --chip");
            }
            if role != Role::Both && named.signal.is_none() {
                return refuse(
                    "no other program shares this program's memory",
                    "give --signal, or do without --role",
                );
            }
            let by = named.signal.as_deref().map(signal).transpose()?;
            return Ok(Wiring { by: by.unwrap_or(EdgeMedium::Own), role });
        }
        if named.signal.is_some() {
            return refuse("--signal is shared memory", "measure response-shared, or do without it");
        }
        if role == Role::Both {
            let cure = "choose the role responder, or generator with a wire from --out to --in";
            return refuse("both roles need shared memory", cure);
        }
        let (Some(input), Some(output)) = (named.input, named.output) else {
            return refuse("no lines were given", "give --in and --out");
        };
        if input == output {
            return refuse(&format!("line {input} would be read and driven"), "give two lines");
        }
        if asked.cpus.len() > 1 {
            return refuse("two lines are one CPU's", "give --cpus with one CPU");
        }
        let by = match (medium, named.board, named.chip) {
            (Medium::Registers, Some(board), _) => {
                let board = Board::named(&board)?;
                board.check_line("--in", input)?;
                board.check_line("--out", output)?;
                EdgeMedium::Registers(Box::new(board), input, output)
            }
            (Medium::Lines, _, Some(chip)) => EdgeMedium::Lines(chip, input, output),
            (Medium::Registers, ..) => return refuse("no board is named", "give --board"),
            _ => return refuse("no chip is named", "give --chip, such as gpiochip0"),
        };
        Ok(Wiring { by, role })
    }

    /// Options that belong to another probe, refused with the reason.
    pub fn check(asked: &Asked) -> Result<()> {
        let is_measured = asked.probes.iter().any(|probe| Medium::of(probe).is_some());
        if asked.response.is_some() && !is_measured {
            let what = "use --role, --signal, --board, --chip, --in or --out";
            return Err(Error::new(what, "they are the response probe's", "measure response"));
        }
        Ok(())
    }

    /// Refuses devices that cannot be opened: it could not later, when a bundle was begun for it.
    pub fn try_open(&self) -> Result<()> {
        self.open().map(drop)
    }

    /// How edges travel.
    pub fn medium(&self) -> Medium {
        match self.by {
            EdgeMedium::Own | EdgeMedium::Signal(..) => Medium::Shared,
            EdgeMedium::Registers(..) => Medium::Registers,
            EdgeMedium::Lines(..) => Medium::Lines,
        }
    }

    /// Whether another CPU of this machine generates the edges.
    pub fn has_generator(&self) -> bool {
        self.role == Role::Both
    }

    /// The meaning of a sample of it, in a line.
    pub fn meaning(&self) -> &'static str {
        match (&self.by, self.role) {
            (_, Role::Both) => {
                "a sample is the time from the edge to the answer, both as the CPU saw them that generated the edge"
            }
            (_, Role::Generator) => {
                "a sample is the time from writing an edge to seeing the answer: the loop back where a wire answers"
            }
            (EdgeMedium::Lines(..), Role::Responder) => {
                "a sample is the time from the kernel's stamp of an edge to the answer written, not from the wire"
            }
            (_, Role::Responder) => {
                "a sample is the time from the last poll that saw no edge to the answer written: the most that this side took, without the wires"
            }
        }
    }

    /// Gets what it polls and drives.
    fn open(&self) -> Result<Open> {
        match &self.by {
            EdgeMedium::Own => Ok(Open::Own(Arc::default())),
            EdgeMedium::Signal(path, offset) => {
                let words = Registers::file(path, *offset, SIGNAL_APART + size_of::<u32>())?;
                Ok(Open::Signal(words))
            }
            EdgeMedium::Registers(board, input, output) => {
                lines::unused(board, [*input, *output])?;
                Ok(Open::Pins(Pins::set_up(board, &board.map()?, *input, *output)?))
            }
            EdgeMedium::Lines(chip, input, output) => {
                Ok(Open::Lines(GpioLines::request(chip, *input, *output)?))
            }
        }
    }
}

/// `FILE` or `FILE:OFFSET`.
fn signal(text: &str) -> Result<EdgeMedium> {
    let (path, offset) = match text.rsplit_once(':') {
        Some((path, offset)) if !untrusted::is_there(text) => (path, offset),
        _ => (text, "0"),
    };
    let digits = offset.strip_prefix("0x");
    let number = digits.map_or_else(|| offset.parse(), |digits| u64::from_str_radix(digits, 16));
    let offset = number.map_err(|_| {
        Error::new(
            format!("use the signal {text}"),
            format!("'{offset}' is not an offset"),
            "give FILE:OFFSET, in bytes",
        )
    })?;
    Ok(EdgeMedium::Signal(path.into(), offset))
}

/// The places that are polled and driven, opened.
#[derive(Debug)]
enum Open {
    Own(Arc<SignalMemory>),
    Signal(Registers),
    Pins(Pins),
    Lines(GpioLines),
}

impl Open {
    /// The end of a file's words that is the generator's, or the responder's.
    fn end(words: &Registers, is_generator: bool) -> Result<SignalEnd> {
        let (edges, answers) = (words.at(0)?, words.at(SIGNAL_APART)?);
        Ok(match is_generator {
            true => SignalEnd { input: answers, output: edges },
            false => SignalEnd { input: edges, output: answers },
        })
    }
}

/// A measuring thread's, ready to begin.
#[derive(Debug)]
pub struct ReadyResponse {
    role: Role,
    open: Open,
    generator: Option<Generator>,
}

impl ReadyResponse {
    /// Opens what `wiring` names and, where it has one, starts the generator on `partner`, which gives edges
    /// to the CPU `measured`. Before the calling thread has a policy that what it starts would have too.
    pub fn new(wiring: &Wiring, partner: Option<(u32, Policy)>, measured: u32) -> Result<ReadyResponse> {
        let open = wiring.open()?;
        let generator = match (wiring.role, partner) {
            (Role::Both, Some((cpu, policy))) => Some(Generator::start(cpu, policy, measured, &open)?),
            (Role::Both, None) => {
                let what = "measure the response to another CPU";
                return Err(Error::new(what, "there is none", "give two CPUs, or one for housekeeping"));
            }
            _ => None,
        };
        Ok(ReadyResponse { role: wiring.role, open, generator })
    }

    /// The generator's thread, where that is one of this program.
    pub(crate) fn seat(&self) -> Option<Arc<Seat>> {
        self.generator.as_ref()?.seat.clone()
    }

    /// Measures until `cycles` are over or `stop` is set. What keeps the generator from its CPU for longer
    /// than `mind_ns` is told.
    pub fn run(
        self,
        cycles: &Cycles,
        clock: &Calibration,
        mind_ns: u64,
        mut samples: Samples,
        stop: &AtomicBool,
    ) -> LoopOutcome {
        let ReadyResponse { role, open, generator } = self;
        if let Some(generator) = generator {
            let work = GeneratorWork { cycles: *cycles, clock: *clock, mind_ns, samples };
            return generator.answered(work, &open, stop);
        }
        let outcome = match role {
            Role::Generator => {
                let pace = Pace::new(cycles, monotonic_ns());
                let heard = match &open {
                    Open::Pins(pins) => Ok(poll::generate(pins, pace, clock, mind_ns, &mut samples, stop)),
                    Open::Signal(words) => Open::end(words, true)
                        .map(|end| poll::generate(&end, pace, clock, mind_ns, &mut samples, stop)),
                    Open::Lines(lines) => lines.generate(pace, &mut samples, stop),
                    Open::Own(_) => Ok(GeneratorCounts::default()),
                };
                heard.map(|heard| heard.answers > 0)
            }
            _ => match &open {
                Open::Pins(pins) => Ok(poll::answer_and_record(pins, cycles, clock, &mut samples, stop)),
                Open::Signal(words) => Open::end(words, false)
                    .map(|end| poll::answer_and_record(&end, cycles, clock, &mut samples, stop)),
                Open::Lines(lines) => lines.answer_and_record(cycles, &mut samples, stop),
                Open::Own(_) => Ok(false),
            },
        };
        let failed = match outcome {
            Ok(true) => None,
            // No edge was expected.
            Ok(false) if stop.load(Ordering::SeqCst) => None,
            Ok(false) => Some(nothing_came(role)),
            Err(error) => Some(error),
        };
        LoopOutcome { failed, ..LoopOutcome::default() }
    }
}

fn nothing_came(role: Role) -> Error {
    match role {
        Role::Generator => Error::new(
            "measure a response",
            "no edge was answered",
            "connect --out to --in, or start the responder first",
        ),
        Role::Both => Error::new(
            "measure a response",
            "no edge was answered",
            "see what keeps the answering thread from its CPU",
        ),
        Role::Responder => Error::new(
            "measure a response",
            "no edge came",
            "connect the generator to --in and start it first",
        ),
    }
}

#[cfg(test)]
mod tests;
