// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of options as people write them: times, lists of CPUs, places of a program.

use std::ffi::OsStr;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command};
use error::Error;
use evidence::cause::Choice;
use evidence::claim::ClaimPer;
use evidence::limit::{Limits, Until};
use evidence::weakly_hard::LateAllowance;
use machine::purpose::FORMS;
use machine::{CpuSet, Profile, Use};
use measure::probes::wakeup::TimerKind;
use rt::policy::Policy;
use trace::boundary::PlaceName;
use trace::choice::SourceChoice;
use tune::user::ProgramRights;

/// A time with its unit: `100us`, `1ms`, `20s`, `1h 30m`; 0 needs none.
pub fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    match text.parse::<f64>() {
        Ok(0.0) => return Ok(Duration::ZERO),
        Ok(number) if number > 0.0 && number.is_finite() => {
            return Err(format!("it has no unit; write {text}us, {text}ms or {text}s"));
        }
        _ => {}
    }
    let cure = "write 100us, 1ms, 20s or 24h";
    if text.starts_with('-') {
        return Err(format!("it is not a time above zero; {cure}"));
    }
    humantime::parse_duration(text).map_err(|e| format!("{e}; {cure}"))
}

/// A time above zero.
pub fn interval(text: &str) -> Result<Duration, String> {
    match duration(text) {
        Ok(Duration::ZERO) => Err("it is not a time above zero; write 30m, 6h or 1day".to_string()),
        other => other,
    }
}

/// A list of CPUs that names at least one: `3`, `0,2-5`.
pub fn cpus(text: &str) -> Result<CpuSet, String> {
    match text.parse::<CpuSet>() {
        Ok(cpus) if cpus.is_empty() => Err("it names no CPU; write it as 0,2-5".to_string()),
        Ok(cpus) => Ok(cpus),
        Err(error) => Err(error.to_string()),
    }
}

/// A place of a program.
pub fn place(text: &str) -> Result<Box<PlaceName>, String> {
    text.parse().map(Box::new)
}

/// A parser whose values a shell offers.
#[derive(Clone)]
pub struct Offered<F> {
    parse: F,
    values: fn() -> Vec<PossibleValue>,
}

impl<F, T, E> TypedValueParser for Offered<F>
where
    F: Fn(&str) -> Result<T, E> + Clone + Send + Sync + 'static,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
    T: Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        TypedValueParser::parse_ref(&self.parse, command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.values)().into_iter()))
    }
}

fn named(names: impl IntoIterator<Item = impl Into<clap::builder::Str>>) -> Vec<PossibleValue> {
    names.into_iter().map(PossibleValue::new).collect()
}

/// A word as it is: what it may be is known to the crate that takes it.
fn word(text: &str) -> Result<String, String> {
    Ok(text.to_string())
}

/// Makes a value of a text, or says why it cannot.
pub type Parse<T, E = String> = fn(&str) -> Result<T, E>;

/// A use.
pub fn purpose() -> Offered<Parse<Use>> {
    Offered {
        parse: str::parse::<Use>,
        values: || FORMS.iter().map(|(form, about)| PossibleValue::new(*form).help(*about)).collect(),
    }
}

/// A profile.
pub fn profile() -> Offered<Parse<Profile>> {
    Offered { parse: str::parse::<Profile>, values: || named(Profile::ALL.map(Profile::name)) }
}

/// Loads by their names.
pub fn loads() -> Offered<Parse<String>> {
    Offered { parse: word, values: || named(load::names()) }
}

/// A probe.
pub fn probe() -> Offered<Parse<String>> {
    Offered { parse: word, values: || named(measure::probes::NAMES) }
}

/// A policy.
pub fn policy() -> Offered<Parse<String>> {
    Offered { parse: word, values: || named(rt::policy::NAMES) }
}

/// The policy called `name`, or the error with the likely one.
pub fn policy_named(name: &str, priority: u32, deadline: (u64, u64, u64)) -> Result<Policy, Error> {
    Policy::named(name, priority, deadline).map_err(|error| {
        let is_known = rt::policy::NAMES.contains(&name);
        match machine::likely(name, rt::policy::NAMES).filter(|_| !is_known) {
            Some(likely) => Error { cure: format!("did you mean {likely}?"), ..error },
            None => error,
        }
    })
}

/// A timer.
pub fn timer() -> Offered<Parse<String>> {
    Offered { parse: word, values: || named(TimerKind::NAMES.map(|(name, _)| name)) }
}

/// A taint.
pub fn taint() -> Offered<Parse<String>> {
    Offered { parse: word, values: || named(evidence::taint::CODES.iter().copied()) }
}

/// Capabilities of the copy that `setup-user` makes.
pub fn program_rights() -> Offered<Parse<ProgramRights>> {
    Offered { parse: str::parse::<ProgramRights>, values: || named(ProgramRights::ALL.map(|(name, _)| name)) }
}

/// The unit that a claim counts.
pub fn claim_per() -> Offered<Parse<String>> {
    Offered { parse: claim_unit, values: || named(ClaimPer::NAMES.map(|(name, _)| name)) }
}

fn claim_unit(text: &str) -> Result<String, String> {
    let names = ClaimPer::NAMES.map(|(name, _)| name);
    names.contains(&text).then(|| text.to_string()).ok_or_else(|| format!("choose from {}", names.join(", ")))
}

/// When a row ends early.
pub fn until() -> Offered<Parse<Until>> {
    Offered { parse: str::parse::<Until>, values: || named(Until::NAMES.map(|(name, _)| name)) }
}

/// A limit as it is given for a run.
pub fn limits(text: &str) -> Result<Limits, String> {
    Limits::parse(text).map_err(|error| format!("{}; {}", error.why, error.cure))
}

/// A rate between 0 and 1.
pub fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| *rate > 0.0 && *rate < 1.0);
    rate.ok_or_else(|| "it is not a rate between 0 and 1; write 0.001".to_string())
}

/// Late cycles that are allowed: `1in10`.
pub fn allowance(text: &str) -> Result<LateAllowance, String> {
    text.parse()
}

/// A source of a program's events.
pub fn source() -> Offered<Parse<SourceChoice>> {
    Offered { parse: str::parse::<SourceChoice>, values: || named(SourceChoice::ALL.map(SourceChoice::name)) }
}

/// A collector of causes.
pub fn causes() -> Offered<Parse<Choice, <Choice as FromStr>::Err>> {
    Offered { parse: str::parse::<Choice>, values: || named(Choice::NAMES) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_unit_is_refused_with_the_cure() {
        assert_eq!(duration("1000").unwrap_err(), "it has no unit; write 1000us, 1000ms or 1000s");
        assert_eq!(duration("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for wrong in ["-1ms", "-1", "nan", "inf", "soon", ""] {
            let error = duration(wrong).unwrap_err();
            assert!(error.ends_with("; write 100us, 1ms, 20s or 24h"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_list_of_cpus_names_one_at_least() {
        assert_eq!(cpus("3,0-1").unwrap().to_string(), "0-1,3");
        for wrong in ["", " ", "3-1", "x"] {
            assert!(cpus(wrong).unwrap_err().ends_with("; write it as 0,2-5"), "{wrong}");
        }
    }
}
