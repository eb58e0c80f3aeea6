// SPDX-License-Identifier: MIT OR Apache-2.0
//! The use of a machine, as `--use` names it. Every verb takes its defaults from this one type: the
//! periods, a limit for each thread, the probes, the profile, and the scale that grades the result.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Profile, likely};

/// A use, with its parameters: `control:1kHz`, `linuxcnc:25us+1ms`, `audio:64@48000`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Use {
    /// As it was written.
    pub asked: String,
    /// Its kind.
    pub kind: UseKind,
    /// Its profile.
    pub profile: Profile,
    /// Time from one cycle of the fastest thread to the next, in ns; absent for a use that has no cycles.
    pub period_ns: Option<u64>,
    /// How late a cycle of that thread may begin, or how long a gap may be, in ns.
    pub limit_ns: u64,
    /// Its threads, the fastest first; none for a use that has no cycles.
    pub threads: Vec<UseThread>,
}

/// Whether a loop that begins this often has the period that is expected of it, but for what measuring adds.
pub fn is_same_period(period_ns: u64, expected_ns: u64) -> bool {
    (period_ns as f64 / expected_ns as f64 - 1.0).abs() <= 0.1
}

/// A kind of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UseKind {
    /// A control loop.
    Control,
    /// LinuxCNC: a servo thread, with or without a base thread for software stepping.
    Linuxcnc,
    /// A callback for each buffer of sound.
    Audio,
    /// An EtherCAT MainDevice.
    Ethercat,
    /// A program that never sleeps.
    Poll,
    /// A host whose guests have deadlines.
    Vm,
}

/// A thread of a use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UseThread {
    /// `base`, `servo`, `callback`, `cycle`, `loop`.
    pub name: String,
    /// Its period, in ns.
    pub period_ns: u64,
    /// How late it may begin.
    pub limit: UseLimit,
    /// The scale that grades it; absent if the use has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
}

/// A limit, as a use gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UseLimit {
    /// A share of the period, in percent.
    Percent(u64),
    /// A time in ns; the period where that is shorter.
    Ns(u64),
}

impl UseLimit {
    /// The limit of a period, in ns.
    pub fn ns(self, period_ns: u64) -> u64 {
        match self {
            UseLimit::Percent(percent) => (u128::from(period_ns) * u128::from(percent) / 100) as u64,
            UseLimit::Ns(ns) => ns.min(period_ns),
        }
    }
}

/// The bounds of a thread's largest latency for a good and for an unfit machine; between them it is usable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scale {
    /// Good up to this latency, in ns.
    pub good_up_to_ns: u64,
    /// Unfit from this latency on, in ns.
    pub unfit_from_ns: u64,
    /// The document that has these figures.
    pub source: String,
}

/// A grade on a [`Scale`], the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// Within the range that the source recommends.
    Good,
    /// Beyond the recommendation, and within the limit that the source warns of.
    Usable,
    /// The range that the source warns of.
    Unfit,
}

impl Grade {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Grade::Good => "good",
            Grade::Usable => "usable",
            Grade::Unfit => "unfit",
        }
    }
}

impl Scale {
    /// The grade of a largest latency.
    pub fn grade(&self, worst_ns: u64) -> Grade {
        if worst_ns <= self.good_up_to_ns {
            Grade::Good
        } else if worst_ns < self.unfit_from_ns {
            Grade::Usable
        } else {
            Grade::Unfit
        }
    }
}

/// How each use is written, for help, completion and errors.
pub const FORMS: [(&str, &str); 8] = [
    ("control:1kHz", "a control loop, by its rate"),
    ("control:25us", "a control loop, by its period"),
    ("linuxcnc:25us+1ms", "base and servo thread, steps by software"),
    ("linuxcnc:1ms", "servo thread alone, steps by hardware (mesa, EtherCAT)"),
    ("audio:64@48000", "a callback for each buffer of sound"),
    ("ethercat:1kHz", "an EtherCAT MainDevice"),
    ("poll", "a program that never sleeps"),
    ("vm", "a host of guests with deadlines"),
];

const NAMES: [&str; 6] = ["control", "linuxcnc", "audio", "ethercat", "poll", "vm"];

const CURE: &str = "write control:1kHz, control:25us, linuxcnc:25us+1ms, linuxcnc:1ms, audio:64@48000, \
                    ethercat:1kHz, poll or vm";

/// "Latency Test" of the LinuxCNC documentation (docs/src/install/latency-test.adoc), as it is since November
/// 2025: up to 20 us software steps are very good; up to 50 us the step rate may disappoint; from 50 us on
/// software steps are impossible. Version 2.9 called a PC unfit for them from 100 us on.
const LINUXCNC_BASE: (u64, u64, &str) = (20_000, 50_000, "LinuxCNC documentation, Latency Test");

/// "Hardware and latency" of the PrintNC wiki recommends less than 100 us (500 us) with an FPGA card. The
/// page of LinuxCNC has the same bound of 500 us for steps by hardware.
const LINUXCNC_SERVO: (u64, u64, &str) = (100_000, 500_000, "PrintNC wiki, Hardware and latency");

/// The shortest period of a servo thread alone: a shorter one is a base thread, which has another scale.
const SHORTEST_SERVO_NS: u64 = 100_000;

/// The limit of uses without a thread: a tenth of 1 ms, the default of every probe without a period.
const GAP_NS: u64 = 100_000;

/// Shortest and longest period, in ns: 1 us and 1 h.
const PERIODS_NS: (f64, f64) = (1e3, 3.6e12);

fn fail(why: impl fmt::Display) -> String {
    format!("{why}; {CURE}")
}

impl FromStr for Use {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = match text.split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text, None),
        };
        let (kind, profile) = kind(name)?;
        let has_value = !matches!(kind, UseKind::Poll | UseKind::Vm);
        let value = match (rest, has_value) {
            (Some(rest), true) if !rest.trim().is_empty() => rest,
            (None, false) => "",
            (_, true) => return Err(fail(format!("{name} lacks its rate or period"))),
            (Some(_), false) => return Err(fail(format!("{name} takes no value"))),
        };
        let threads = match kind {
            UseKind::Control => vec![thread("loop", period(value)?, UseLimit::Percent(10))],
            UseKind::Ethercat => vec![thread("cycle", period(value)?, UseLimit::Percent(10))],
            UseKind::Audio => {
                let (frames, rate) = value.split_once('@').ok_or_else(|| fail("it names no rate"))?;
                // The other half of the buffer's time is the program's own.
                vec![thread("callback", in_range(number(frames)? / number(rate)?)?, UseLimit::Percent(50))]
            }
            UseKind::Linuxcnc => linuxcnc(value)?,
            UseKind::Poll => Vec::new(),
            UseKind::Vm => vec![thread("vcpu", 1_000_000, UseLimit::Percent(10))],
        };
        let fastest = threads.first();
        Ok(Use {
            asked: text.to_string(),
            kind,
            profile,
            period_ns: fastest.map(|thread| thread.period_ns),
            limit_ns: fastest.map_or(GAP_NS, |thread| thread.limit.ns(thread.period_ns).max(1)),
            threads,
        })
    }
}

impl fmt::Display for Use {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.asked)
    }
}

fn kind(name: &str) -> Result<(UseKind, Profile), String> {
    Ok(match name {
        "control" => (UseKind::Control, Profile::Periodic),
        "linuxcnc" => (UseKind::Linuxcnc, Profile::Periodic),
        "audio" => (UseKind::Audio, Profile::Audio),
        "ethercat" => (UseKind::Ethercat, Profile::Periodic),
        "poll" => (UseKind::Poll, Profile::Poll),
        "vm" => (UseKind::Vm, Profile::Vm),
        "" => return Err(fail("it names no use")),
        _ => {
            let near = likely(name, NAMES);
            return Err(match near {
                Some(known) => fail(format!("unknown use '{name}' (did you mean {known}?)")),
                None => fail(format!("unknown use '{name}'")),
            });
        }
    })
}

fn thread(name: &str, period_ns: u64, limit: UseLimit) -> UseThread {
    UseThread { name: name.to_string(), period_ns, limit, scale: None }
}

/// `25us+1ms`: base and servo thread; `1ms`: the servo thread alone.
fn linuxcnc(value: &str) -> Result<Vec<UseThread>, String> {
    let graded = |name, period_ns, (good, unfit, source): (u64, u64, &str)| UseThread {
        scale: Some(Scale { good_up_to_ns: good, unfit_from_ns: unfit, source: source.to_string() }),
        ..thread(name, period_ns, UseLimit::Ns(good))
    };
    let Some((base, servo)) = value.split_once('+') else {
        let servo = period(value)?;
        if servo < SHORTEST_SERVO_NS {
            return Err(fail("a base thread has a servo thread beside it"));
        }
        return Ok(vec![graded("servo", servo, LINUXCNC_SERVO)]);
    };
    let (base, servo) = (period(base)?, period(servo)?);
    if base >= servo {
        return Err(fail("the base thread is not faster than the servo thread"));
    }
    Ok(vec![graded("base", base, LINUXCNC_BASE), graded("servo", servo, LINUXCNC_SERVO)])
}

/// A rate (`1kHz`) or a period (`25us`), as a period in ns.
fn period(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let number = number(digits)?;
    in_range(match unit.to_lowercase().as_str() {
        "hz" => 1.0 / number,
        "khz" => 1e-3 / number,
        "mhz" => 1e-6 / number,
        "s" => number,
        "ms" => number * 1e-3,
        "us" => number * 1e-6,
        "ns" => number * 1e-9,
        "" => return Err(fail(format!("'{text}' has no unit"))),
        _ => return Err(fail(format!("'{unit}' is no unit of a rate or a time"))),
    })
}

fn number(text: &str) -> Result<f64, String> {
    let text = text.trim();
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        Ok(_) => Err(fail(format!("'{text}' is not above zero"))),
        Err(_) => Err(fail(format!("'{text}' is not a number"))),
    }
}

fn in_range(seconds: f64) -> Result<u64, String> {
    let ns = (seconds * 1e9).round();
    if (PERIODS_NS.0..=PERIODS_NS.1).contains(&ns) {
        Ok(ns as u64)
    } else {
        Err(fail("its period is not between 1 us and 1 h"))
    }
}

impl Use {
    /// The probes that measure it, as `--probe` names them.
    pub fn probes(&self) -> &'static [&'static str] {
        match self.kind {
            UseKind::Control | UseKind::Linuxcnc | UseKind::Audio => &["wakeup"],
            UseKind::Ethercat => &["ethercat"],
            UseKind::Poll => &["spin"],
            // A guest's CPU sleeps and is woken, and is interrupted while it runs.
            UseKind::Vm => &["wakeup", "spin"],
        }
    }

    /// The periods of its threads, in ns.
    pub fn periods_ns(&self) -> Vec<u64> {
        self.threads.iter().map(|thread| thread.period_ns).collect()
    }

    /// The thread whose period is the nearest.
    pub fn thread_of(&self, period_ns: u64) -> Option<&UseThread> {
        let apart = |thread: &&UseThread| {
            let (a, b) = (thread.period_ns.max(1) as f64, period_ns.max(1) as f64);
            (a / b).ln().abs()
        };
        self.threads.iter().min_by(|a, b| apart(a).total_cmp(&apart(b)))
    }

    /// The limits of these periods, as `--limit` takes them: `25us:20us,1ms:100us`, or one for all.
    pub fn limits(&self, periods_ns: &[u64]) -> String {
        let limit = |period_ns: u64| match self.thread_of(period_ns).map(|thread| thread.limit) {
            Some(UseLimit::Ns(ns)) => time(ns.min(period_ns)),
            Some(UseLimit::Percent(percent)) => format!("{percent}%"),
            None => time(GAP_NS),
        };
        let each = periods_ns.iter().map(|ns| (*ns, limit(*ns))).collect::<Vec<_>>();
        match each.first() {
            None => time(GAP_NS),
            Some((_, first)) if each.iter().all(|(_, limit)| limit == first) => first.clone(),
            Some(_) => {
                let each = each.iter().map(|(ns, limit)| format!("{}:{limit}", time(*ns)));
                each.collect::<Vec<_>>().join(",")
            }
        }
    }

    /// The use's name for a missed period.
    pub fn missed(&self) -> &'static str {
        if self.kind == UseKind::Audio { "xruns" } else { "missed" }
    }
}

/// A time as options take it.
fn time(ns: u64) -> String {
    match ns {
        _ if ns.is_multiple_of(1_000_000) => format!("{}ms", ns / 1_000_000),
        _ if ns.is_multiple_of(1_000) => format!("{}us", ns / 1_000),
        _ => format!("{ns}ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Use {
        text.parse().unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn a_use_becomes_period_limit_and_profile() {
        let seen = |text: &str| {
            let asked = read(text);
            (asked.profile, asked.period_ns, asked.limit_ns)
        };
        assert_eq!(seen("audio:64@48000"), (Profile::Audio, Some(1_333_333), 666_666));
        assert_eq!(seen("control:1kHz"), (Profile::Periodic, Some(1_000_000), 100_000));
        assert_eq!(seen("control:250Hz"), (Profile::Periodic, Some(4_000_000), 400_000));
        assert_eq!(seen("control: 2.5 kHz"), (Profile::Periodic, Some(400_000), 40_000));
        assert_eq!(seen("control:25us"), (Profile::Periodic, Some(25_000), 2_500));
        assert_eq!(seen("ethercat:4kHz"), (Profile::Periodic, Some(250_000), 25_000));
        assert_eq!(seen("linuxcnc:25us+1ms"), (Profile::Periodic, Some(25_000), 20_000));
        assert_eq!(seen("linuxcnc:1ms"), (Profile::Periodic, Some(1_000_000), 100_000));
        assert_eq!(seen("poll"), (Profile::Poll, None, 100_000));
        assert_eq!(seen("vm"), (Profile::Vm, Some(1_000_000), 100_000));
    }

    #[test]
    fn each_thread_has_its_own_limit() {
        let limits = |text: &str| read(text).limits(&read(text).periods_ns());
        assert_eq!(limits("linuxcnc:25us+1ms"), "25us:20us,1ms:100us");
        // No cycle may be later than its period.
        assert_eq!(limits("linuxcnc:15us+1ms"), "15us:15us,1ms:100us");
        assert_eq!((limits("audio:64@48000"), limits("poll")), ("50%".to_string(), "100us".to_string()));
        // Another period has the limit of the thread that is most like it.
        assert_eq!(read("linuxcnc:25us+1ms").limits(&[50_000, 2_000_000]), "50us:20us,2ms:100us");
        assert_eq!(read("control:1kHz").limits(&[250_000]), "10%");
    }

    #[test]
    fn a_latency_is_graded_by_the_scale_of_its_thread() {
        let asked = read("linuxcnc:25us+1ms");
        let grade = |thread: usize, ns| asked.threads[thread].scale.as_ref().unwrap().grade(ns);
        let grades = [20_000, 20_001, 49_999, 50_000].map(|ns| grade(0, ns));
        assert_eq!(grades, [Grade::Good, Grade::Usable, Grade::Usable, Grade::Unfit]);
        let grades = [100_000, 100_001, 499_999, 500_000].map(|ns| grade(1, ns));
        assert_eq!(grades, [Grade::Good, Grade::Usable, Grade::Usable, Grade::Unfit]);
    }

    #[test]
    fn what_is_no_use_is_refused_with_the_cure() {
        for wrong in [
            "",
            ":",
            "audio",
            "audio:",
            "audio:64",
            "audio:0@0",
            "audio:0@48000",
            "audio:64@0",
            "audio:x@1",
            "audio:1e308@1e-308",
            "control:1000",
            "control:0Hz",
            "control:-1kHz",
            "control:inf kHz",
            "control:25xs",
            "radio:1kHz",
            "control:2GHz",
            "control:100MHz",
            "control:99999999999999999999999h",
            "linuxcnc:",
            "linuxcnc:+",
            "linuxcnc:25us",
            "linuxcnc:1ms+25us",
            "linuxcnc:25us+",
            "linuxcnc:25us+1ms+2ms",
            "poll:1kHz",
            "vm:",
        ] {
            let error = wrong.parse::<Use>().unwrap_err();
            assert!(error.ends_with(CURE) && error.lines().count() == 1, "{wrong}: {error}");
        }
    }

    #[test]
    fn a_misspelt_use_is_recognised() {
        for (wrong, meant) in
            [("contrl:1kHz", "control"), ("lniuxcnc:1ms", "linuxcnc"), ("aud:64@48000", "audio")]
        {
            let error = wrong.parse::<Use>().unwrap_err();
            assert!(error.contains(&format!("did you mean {meant}?")), "{wrong}: {error}");
        }
        assert!(!"radio:1kHz".parse::<Use>().unwrap_err().contains("did you mean"));
    }

    #[test]
    fn each_form_that_is_offered_is_read() {
        for (form, _) in FORMS {
            read(form);
        }
    }
}
