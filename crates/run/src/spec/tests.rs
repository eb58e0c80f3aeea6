// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defaults, and requests that make no sense.

use machine::snapshot::Cpu;

use super::*;
use crate::error::RunError;

/// A machine with so many CPUs, some of them isolated.
pub(crate) fn machine(cpus: u32, isolated: &str) -> Snapshot {
    let cpu = |id| Cpu { id, online: true, siblings: [id].into_iter().collect(), ..Cpu::default() };
    let mut machine = Snapshot { cpus: (0..cpus).map(cpu).collect(), ..Snapshot::default() };
    machine.isolation.isolated = isolated.parse().unwrap();
    machine
}

/// A sensible request of every probe.
fn sensible(probe: &str) -> Asked {
    let asked = Asked { probes: vec![probe.into()], loads: vec!["idle".into()], ..Asked::default() };
    complete(Asked { duration_ns: Some(1_000_000_000), ..asked }, &machine(4, "2"))
}

/// The line with which `asked` is refused.
fn refused(asked: Asked) -> String {
    RunSpec::of(asked).unwrap_err().to_string()
}

#[test]
fn isolated_cpus_are_measured_where_none_are_named() {
    let asked = complete(Asked::default(), &machine(8, "5-6"));
    assert_eq!((asked.cpus.to_string(), asked.house_keeping.to_string()), ("5-6".into(), "0-4,7".into()));
    let asked = complete(Asked::default(), &machine(2, ""));
    assert_eq!((asked.cpus.to_string(), asked.house_keeping.to_string()), ("1".into(), "0".into()));
}

#[test]
fn defaults_leave_what_was_asked() {
    let plan = Asked { periods_ns: vec![500_000], priority: Some(60), ..Asked::default() };
    let asked = complete(plan, &machine(2, ""));
    assert_eq!(
        (asked.periods_ns, asked.priority, asked.limit.as_deref()),
        (vec![500_000], Some(60), Some("10%"))
    );
}

#[test]
fn every_probe_refuses_each_bad_value() {
    type Change = fn(&mut Asked);
    let bad: [(Change, &str); 18] = [
        (|asked| asked.periods_ns = vec![0], "a period of 0 was asked; give a period such as 1ms"),
        (|asked| asked.periods_ns = vec![1_000_000, 0], "a period of 0 was asked"),
        (|asked| asked.limit = Some("0".into()), "it is not a time above zero"),
        (|asked| asked.limit = Some("0%".into()), "it is not a time above zero"),
        (|asked| asked.limit = Some("-3us".into()), "it is not a time above zero"),
        (|asked| asked.limit = Some("nan%".into()), "it is not a time above zero"),
        (|asked| asked.limit = Some("100".into()), "it has no unit"),
        (|asked| asked.duration_ns = Some(0), "a duration of 0 measures nothing"),
        (|asked| asked.loops = Some(0), "0 loops measure nothing"),
        (|asked| asked.threshold_ns = Some(0), "a threshold of 0 makes a spike of every sample"),
        (|asked| asked.claim = Some(0.0), "is not a rate between 0 and 1"),
        (|asked| asked.claim = Some(f64::NAN), "is not a rate between 0 and 1"),
        (|asked| asked.allow = Some("3in2".into()), "allows every cycle to be late"),
        (|asked| asked.priority = Some(0), "priority 0 was given for SCHED_FIFO"),
        (|asked| asked.priority = Some(100), "priority 100 was given for SCHED_FIFO"),
        (|asked| asked.policy = Some("fif".into()), "there is no policy 'fif'; did you mean fifo?"),
        (
            |asked| asked.timer = Some("hpet".into()),
            "there is no timer 'hpet'; choose from nanosleep, timerfd",
        ),
        (
            |asked| asked.accept = vec!["stael".into()],
            "there is no taint 'stael' to accept; did you mean steal?",
        ),
    ];
    for probe in probes::NAMES.into_iter().chain(["message-futex", "response-shared", "loop"]) {
        assert!(RunSpec::of(sensible(probe)).is_ok(), "{probe}");
        for (change, line) in &bad {
            let mut asked = sensible(probe);
            change(&mut asked);
            let refusal = refused(asked);
            assert!(refusal.contains(line) && !refusal.contains('\n'), "{probe}: {refusal}");
        }
    }
}

#[test]
fn a_periodic_probe_refuses_a_limit_above_its_period() {
    for probe in probes::NAMES.into_iter().chain(["loop"]) {
        let asked = Asked { limit: Some("1001us".into()), ..sensible(probe) };
        let is_periodic = !["spin", "hardware"].contains(&probe);
        match RunSpec::of(asked) {
            Ok(_) => assert!(!is_periodic, "{probe}"),
            Err(error) => {
                assert!(is_periodic, "{probe}");
                let line = "the limit 1,001 us is above the period 1,000 us; a cycle that late is a missed period: \
                            give a limit up to the period";
                assert_eq!(error.to_string(), line);
            }
        }
    }
}

#[test]
fn a_limit_must_fit_each_period() {
    let asked = |limit: &str| Asked {
        periods_ns: vec![1_000_000, 25_000],
        limit: Some(limit.into()),
        ..sensible("wakeup")
    };
    assert_eq!(refused(asked("100us")).split(';').next(), Some("the limit 100 us is above the period 25 us"));
    let periods = RunSpec::of(asked("100%")).unwrap().periods;
    let limits: Vec<_> = periods.iter().map(|period| (period.ns.get(), period.limit_ns)).collect();
    assert_eq!(limits, [(1_000_000, 1_000_000), (25_000, 25_000)]);
}

#[test]
fn refuses_a_probe_that_there_is_not() {
    let line = refused(sensible("wakeups-of"));
    assert!(line.starts_with("there is no probe 'wakeups-of'; choose from wakeup, spin, "), "{line}");
}

#[test]
fn loops_do_not_end_a_probe_without_cycles() {
    let asked = |probe| Asked { duration_ns: None, loops: Some(1000), ..sensible(probe) };
    assert!(RunSpec::of(asked("toggle")).is_ok());
    let line = "the spin probe has no cycles, so --loops does not end it; give --duration as well";
    assert_eq!(refused(asked("spin")), line);
}

#[test]
fn each_taint_can_be_accepted() {
    let accept = taint::CODES.iter().map(|code| code.to_string()).collect();
    assert!(RunSpec::of(Asked { accept, ..sensible("wakeup") }).is_ok());
    let far = refused(Asked { accept: vec!["all".into()], ..sensible("wakeup") });
    let line = format!("there is no taint 'all' to accept; choose from {}", taint::CODES.join(", "));
    assert_eq!(far, line);
}

#[test]
fn refuses_two_commands_whose_rows_have_one_name() {
    let loads = vec!["custom=true".to_string(), "custom=false".to_string()];
    let line = refused(Asked { loads, ..sensible("wakeup") });
    assert!(line.ends_with("both rows would be called custom; measure them one after the other"), "{line}");
}

#[test]
fn a_refusal_keeps_its_code() {
    let Err(RunError::Refused(finding)) = RunSpec::of(Asked { periods_ns: vec![0], ..sensible("ethercat") })
    else {
        panic!("it was not refused");
    };
    assert_eq!((finding.code, finding.effect), ("period", FindingEffect::Refuse));
}
