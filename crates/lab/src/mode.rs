// SPDX-License-Identifier: MIT OR Apache-2.0
//! How guests run, with the reason: the three modes measure different things.

use std::fs::OpenOptions;
use std::time::Duration;

use evidence::kind::RowKind;
use evidence::lab::Mode;

use crate::architecture::Architecture;
use crate::kernel::GuestKernel;
use crate::patience::Patience;
use crate::scenario::{LINES, Scenario};
use crate::{Error, Result, symbols};

/// How long a guest on the processor may take to answer; it takes two seconds.
const ANSWER: Duration = Duration::from_secs(20);

/// The mode asked for, or the one that fits: counts for what never enters the kernel by itself, is stormed
/// upon, or is compared with a witness; latencies for a machine at rest whose thread sleeps, real ones where
/// guests run on the processor.
pub fn choose(
    asked: Option<&str>,
    kernel: &GuestKernel,
    scenarios: &[Scenario],
    witness: bool,
    patience: &Patience,
) -> Result<(Mode, String)> {
    let because = |mode: Mode, why: String| (mode, format!("{}; {why}", meaning(mode)));
    match asked {
        Some("count") => Ok(because(Mode::Count, "asked for".into())),
        Some("virtual") => Ok(because(Mode::Virtual, "asked for".into())),
        Some("real") => match no_processor(kernel, patience) {
            None => Ok(because(Mode::Real, "asked for".into())),
            Some(why) => {
                let why = format!("guests do not run on the processor here: {why}");
                Err(Error::on("use the mode", "real", why, "use --mode count or virtual"))
            }
        },
        Some(other) => {
            let cure = "choose count, virtual or real";
            Err(Error::on("use the mode", format!("'{other}'"), "there is none of that name", cure))
        }
        None if witness => {
            Ok(because(Mode::Count, "chosen, since a witness is compared with the scope".into()))
        }
        None if scenarios.iter().all(|one| one.probe == LINES) => Ok(because(
            Mode::Virtual,
            "chosen, since the guest's clock tells how long the kernel takes".into(),
        )),
        None if scenarios
            .iter()
            .any(|one| RowKind::of(&one.probe) != RowKind::Wakeup || !one.storms.is_empty()) =>
        {
            Ok(because(Mode::Count, "chosen, since interruptions are the question".into()))
        }
        None => Ok(match no_processor(kernel, patience) {
            None => because(Mode::Real, "chosen, since guests run on the processor here".into()),
            Some(why) => because(
                Mode::Virtual,
                format!("chosen, since guests do not run on the processor here: {why}"),
            ),
        }),
    }
}

/// The meaning of the mode's figures.
fn meaning(mode: Mode) -> &'static str {
    match mode {
        Mode::Count => {
            "translated code with the scope: interruptions and instructions are exact, times mean nothing"
        }
        Mode::Virtual => {
            "translated code in instruction-count time: repeatable, an instruction is a virtual nanosecond"
        }
        Mode::Real => "on the processor: latencies of this machine under its hypervisor",
    }
}

/// Why guests cannot run on this processor; found out by running one.
fn no_processor(kernel: &GuestKernel, patience: &Patience) -> Option<String> {
    if kernel.architecture != Architecture::of_this_program() {
        return Some("it is of another architecture".to_string());
    }
    if let Err(why) = OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        return Some(format!("/dev/kvm: {why}").to_lowercase());
    }
    let answer = symbols::ask(kernel, Mode::Real, patience.or(ANSWER));
    answer.err().map(|error| format!("one was tried: {}", error.why))
}
