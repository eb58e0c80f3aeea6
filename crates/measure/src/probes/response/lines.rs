// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines of a GPIO chip through the kernel (`/dev/gpiochipN`): each edge is an interrupt, an event, a wakeup
//! and a read, and each answer a system call. For contrast with what polls. Linux:
//! Documentation/userspace-api/gpio/chardev.rst
//!
//! Also who uses a line, for those that take its registers behind the kernel's back.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gpiocdev::Request;
use gpiocdev::chip::Chip;
use gpiocdev::line::{EdgeDetection, EdgeKind, Value};
use rt::clock::monotonic_ns;
use rt::{Error, Result};

use super::board::Board;
use super::poll::{GeneratorCounts, PATIENCE_NS};
use crate::pace::Pace;
use crate::samples::{Sample, Samples};
use crate::schedule::{Cycles, missed};

/// How long it waits for an edge before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// Who asks the kernel for lines.
const CONSUMER: &str = "isolator";

/// Two lines, requested of the kernel; they go back when they are dropped.
#[derive(Debug)]
pub(super) struct GpioLines {
    read: Request,
    driven: Request,
}

impl GpioLines {
    /// Requests lines of the chip called `chip`: `gpiochip0`, or its device.
    pub fn request(chip: &str, input: u32, output: u32) -> Result<GpioLines> {
        let path = match chip.starts_with('/') {
            true => PathBuf::from(chip),
            false => PathBuf::from("/dev").join(chip),
        };
        let what = |line: u32| format!("use line {line} of {chip}");
        let info = Chip::from_path(&path).and_then(|opened| Ok((opened.info()?, opened)));
        let (info, opened) = info.map_err(|error| {
            let cure = match untrusted::open(&path) {
                Err(why) if why.kind() == std::io::ErrorKind::NotFound => {
                    "choose from those in /dev/gpiochip*"
                }
                Err(_) => "run as root, or let this user open it",
                Ok(_) => "give the device of a GPIO chip",
            };
            Error::new(format!("use the GPIO chip {}", path.display()), plain(&error), cure)
        })?;
        for (option, line) in [("--in", input), ("--out", output)] {
            if line >= info.num_lines {
                let why = format!("it has lines 0 to {}", info.num_lines.saturating_sub(1));
                return Err(Error::new(what(line), why, format!("give another {option}")));
            }
            let state = opened.line_info(line).map_err(|error| failed(&what(line), &error))?;
            in_use(&what(line), state.used, &state.consumer)?;
        }
        let builder = || {
            let mut builder = Request::builder();
            builder.on_chip(&path).with_consumer(CONSUMER);
            builder
        };
        let read =
            builder().with_line(input).as_input().with_edge_detection(EdgeDetection::BothEdges).request();
        let driven = builder().with_line(output).as_output(Value::Inactive).request();
        Ok(GpioLines {
            read: read.map_err(|error| failed(&what(input), &error))?,
            driven: driven.map_err(|error| failed(&what(output), &error))?,
        })
    }

    /// The next edge of the input: when the kernel's interrupt handler saw it, and the level after it.
    fn edge(&self) -> Result<Option<(u64, Value)>> {
        let lost = |error| failed("wait for an edge", &error);
        if !self.read.wait_edge_event(LOOK).map_err(lost)? {
            return Ok(None);
        }
        let event = self.read.read_edge_event().map_err(lost)?;
        let level = if event.kind == EdgeKind::Rising { Value::Active } else { Value::Inactive };
        Ok(Some((event.timestamp_ns, level)))
    }

    fn drive(&self, level: Value) -> Result<()> {
        self.driven.set_lone_value(level).map_err(|error| failed("drive a line", &error))
    }

    fn level(&self) -> Result<Value> {
        self.read.lone_value().map_err(|error| failed("read a line", &error))
    }

    /// Makes each edge of the input one of the output. A sample is the time from the kernel's stamp of the
    /// edge to the return from the call that answered it. Whether any edge came.
    pub fn answer_and_record(
        &self,
        cycles: &Cycles,
        samples: &mut Samples,
        stop: &AtomicBool,
    ) -> Result<bool> {
        let (mut left, mut came) = (cycles.loops, false);
        self.drive(self.level()?)?;
        while monotonic_ns() < cycles.end_ns && left > 0 && !stop.load(Ordering::Relaxed) {
            let Some((due_ns, level)) = self.edge()? else { continue };
            self.drive(level)?;
            let woke_ns = monotonic_ns().max(due_ns);
            came = true;
            if due_ns >= cycles.start_ns && due_ns < cycles.end_ns {
                samples.send(Sample { due_ns, woke_ns });
                left = left.saturating_sub(1 + missed(due_ns, woke_ns, cycles.period_ns, cycles.end_ns));
            }
        }
        Ok(came)
    }

    /// Gives an edge each period and waits for the input to follow. A sample is the time from before the call
    /// that gives it to after the one that reported the answer.
    pub fn generate(
        &self,
        mut pace: Pace<'_>,
        samples: &mut Samples,
        stop: &AtomicBool,
    ) -> Result<GeneratorCounts> {
        let mut heard = GeneratorCounts::default();
        let (cycles, mut level) = (*pace.cycles(), self.level()?);
        self.drive(level)?;
        while pace.wait(stop).is_some() {
            level = level.not();
            let gave_ns = monotonic_ns();
            self.drive(level)?;
            let woke_ns = loop {
                let follows = self.edge()?.is_some_and(|(_, now)| now == level);
                let now_ns = monotonic_ns();
                if follows {
                    heard.answers += 1;
                    break Some(now_ns);
                }
                let waited_ns = now_ns - gave_ns;
                let gives_up = heard.answers == 0 && waited_ns > PATIENCE_NS;
                if gives_up || stop.load(Ordering::Relaxed) || now_ns >= cycles.end_ns {
                    break Some(now_ns).filter(|_| waited_ns > cycles.period_ns && !gives_up);
                }
            };
            let Some(woke_ns) = woke_ns else { break };
            pace.end(Sample { due_ns: gave_ns, woke_ns }, samples);
        }
        Ok(heard)
    }
}

/// Refuses lines of `board` that are in use according to the kernel; without its word they count as free.
pub(super) fn unused(board: &Board, lines: [u32; 2]) -> Result<()> {
    for line in lines {
        let Some((label, number)) = board.chip_of(line) else { continue };
        let chips = gpiocdev::chip::chips()
            .unwrap_or_default()
            .into_iter()
            .filter_map(|path| Chip::from_path(path).ok());
        for chip in chips.filter(|chip| chip.info().is_ok_and(|info| info.label == label)) {
            if let Ok(state) = chip.line_info(number) {
                in_use(&format!("use line {line} of {}", board.name), state.used, &state.consumer)?;
            }
        }
    }
    Ok(())
}

fn in_use(what: &str, used: bool, consumer: &str) -> Result<()> {
    match (used, consumer) {
        (false, _) => Ok(()),
        (true, "") => Err(Error::new(what, "the kernel uses it", "give another line")),
        (true, consumer) => {
            Err(Error::new(what, format!("'{consumer}' uses it"), "end that, or give another line"))
        }
    }
}

fn failed(what: &str, error: &gpiocdev::Error) -> Error {
    Error::new(what, plain(error), "see what the kernel's log says of the chip")
}

/// An error's text, as the rest of a line.
fn plain(error: &gpiocdev::Error) -> String {
    error.to_string().trim_end_matches('.').replace('\n', " ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chip_that_is_not_there_or_none_is_refused_with_the_cure() {
        let gone = GpioLines::request("gpiochip999", 0, 1).unwrap_err().to_string();
        assert!(gone.starts_with("cannot use the GPIO chip /dev/gpiochip999: "), "{gone}");
        assert!(gone.ends_with("; choose from those in /dev/gpiochip*"), "{gone}");
        let none = GpioLines::request("/dev/null", 0, 1).unwrap_err().to_string();
        assert!(none.ends_with("; give the device of a GPIO chip"), "{none}");
    }

    #[test]
    fn who_uses_a_line_is_named() {
        assert_eq!(in_use("use line 4 of b", false, ""), Ok(()));
        let refusal = |consumer| in_use("use line 4 of b", true, consumer).unwrap_err().to_string();
        assert_eq!(refusal("led0"), "cannot use line 4 of b: 'led0' uses it; end that, or give another line");
        assert_eq!(refusal(""), "cannot use line 4 of b: the kernel uses it; give another line");
    }

    #[test]
    fn takes_lines_as_free_if_the_kernel_lacks_the_chip() {
        assert_eq!(unused(&Board::named("pl061@0x7fff0000").unwrap(), [0, 1]), Ok(()));
    }
}
