// SPDX-License-Identifier: MIT OR Apache-2.0
//! A load as its supervisor sees it, second by second.

use super::*;

fn seen(pid: u32, parent: u32, name: &str, state: char, ran_ns: u64) -> ProcessPoll {
    let process = Process { pid, parent, name: name.into(), state, ..Process::default() };
    ProcessPoll { process, ran_ns }
}

/// stress-ng (10) with two workers, one of which has a child that works for it.
fn stress(second: u64) -> LoadPoll {
    LoadPoll {
        parts: vec![ProgramPoll { pid: 10, has_workers: true, ..ProgramPoll::default() }],
        family: vec![
            seen(10, 1, "stress-ng", 'S', 7),
            seen(11, 10, "stress-ng-cpu", 'R', second * 900),
            seen(12, 10, "stress-ng-vm", 'S', 5),
            seen(13, 12, "stress-ng-vm", 'R', second * 100),
        ],
        used_and_idle_ticks: Some((second * 95, second * 5)),
        cpus: 1,
        ..LoadPoll::default()
    }
}

fn command(second: u64) -> LoadPoll {
    LoadPoll {
        parts: vec![ProgramPoll::default()],
        family: vec![seen(20, 1, "sh", 'S', second)],
        ..LoadPoll::default()
    }
}

/// Ten seconds of a load, in which `change` befalls it from the third to the ninth.
fn watched(normal: fn(u64) -> LoadPoll, change: impl Fn(u64, &mut LoadPoll)) -> Worked {
    let (mut work, start) = (WorkSoFar::default(), Instant::now());
    for second in 0..=10 {
        let mut poll = normal(second);
        if (3..=9).contains(&second) {
            change(second, &mut poll);
        }
        work.poll(start + Duration::from_secs(second), poll);
    }
    work.worked()
}

fn stood_still(worked: &Worked) -> Option<String> {
    worked.stood_still_since(&Worked::default(), 10.0)
}

#[test]
fn a_load_that_works_all_the_time_never_stands_still() {
    for normal in [stress, command] {
        let worked = watched(normal, |_, _| ());
        assert_eq!((worked.seconds, worked.still_s, stood_still(&worked)), (10.0, 0.0, None));
    }
}

#[test]
fn every_way_to_stand_still_is_found() {
    let frozen = |poll: &mut LoadPoll, pid: u32, state: char, ran_ns: u64| {
        let seen = poll.family.iter_mut().find(|seen| seen.process.pid == pid).unwrap();
        (seen.process.state, seen.ran_ns) = (state, ran_ns);
    };
    type Change = Box<dyn Fn(u64, &mut LoadPoll)>;
    type Normal = fn(u64) -> LoadPoll;
    let cases: [(&str, Normal, Change); 6] = [
        ("stress-ng-cpu (11) was stopped", stress, Box::new(move |_, poll| frozen(poll, 11, 'T', 1800))),
        ("stress-ng-vm (12) did not run", stress, Box::new(move |_, poll| frozen(poll, 13, 'S', 200))),
        (
            "1 of 2 workers were gone",
            stress,
            Box::new(|_, poll| poll.family.retain(|seen| seen.process.pid != 11)),
        ),
        (
            "the housekeeping CPUs idled longer than it ran",
            stress,
            Box::new(|second, poll| {
                poll.used_and_idle_ticks = Some((190 + second, second * 100));
            }),
        ),
        ("sh (20) was stopped", command, Box::new(move |_, poll| frozen(poll, 20, 'T', 2))),
        ("none of its processes ran", command, Box::new(move |_, poll| frozen(poll, 20, 'S', 2))),
    ];
    for (why, normal, change) in cases {
        let worked = watched(normal, change);
        let said = stood_still(&worked).unwrap_or_else(|| panic!("{why}: {worked:?}"));
        assert!(said.ends_with(why), "{said}");
        assert!((6.0..=8.0).contains(&worked.still_s), "{worked:?}");
    }
}

#[test]
fn an_engine_whose_counts_stay_stands_still() {
    let engine = |second: u64| {
        let counts =
            BTreeMap::from([("udp_bytes".to_string(), second * 10), ("tcp_bytes".to_string(), second)]);
        LoadPoll {
            parts: vec![ProgramPoll { counts: Some(counts), ..ProgramPoll::default() }],
            family: vec![seen(30, 1, "net", 'S', second)],
            ..LoadPoll::default()
        }
    };
    assert_eq!(stood_still(&watched(engine, |_, _| ())), None);
    let worked = watched(engine, |_, poll| {
        poll.parts[0].counts.as_mut().unwrap().insert("tcp_bytes".into(), 2);
    });
    assert_eq!(
        stood_still(&worked).unwrap(),
        "it stood still for 7.0 of 10.0 s: its count of tcp bytes did not grow"
    );
}

#[test]
fn workers_that_wait_for_a_cpu_or_write_to_a_disk_do_not_stand_still() {
    let waits = |name: &'static str, state: char| {
        watched(stress, move |_, poll| {
            poll.family[1] = seen(11, 10, name, state, 1800);
        })
    };
    assert_eq!(stood_still(&waits("stress-ng-cpu", 'R')), None);
    assert_eq!(stood_still(&waits("stress-ng-hdd", 'D')), None);
    assert!(stood_still(&waits("stress-ng-cpu", 'D')).is_some());
}

#[test]
fn a_load_of_a_gpu_may_wait_but_not_be_stopped() {
    let idle = |state: char| {
        let worked = watched(command, move |_, poll| {
            poll.may_wait = true;
            poll.parts = vec![ProgramPoll { name: "gpu".into(), pid: 20, ..ProgramPoll::default() }];
            poll.family = vec![seen(20, 1, "sh", state, 2)];
        });
        worked.why
    };
    assert_eq!((idle('S'), idle('T').as_deref()), (None, Some("gpu (20) was stopped")));
}

#[test]
fn a_quota_counts_for_as_long_as_it_stopped_the_load() {
    let worked = watched(stress, |second, poll| {
        let stops = Stops { times: second, length_ns: second * 600_000_000 };
        poll.stops.insert("/cpu/a".into(), stops);
    });
    // From the fourth second on: the third has nothing before it to differ from.
    assert!((worked.still_s - 3.6).abs() < 0.01, "{worked:?}");
    assert_eq!(worked.why.as_deref(), Some("the quota of the control group /cpu/a stopped it"));
}

#[test]
fn time_without_a_look_is_no_work() {
    let (mut work, start) = (WorkSoFar::default(), Instant::now());
    work.poll(start, command(1));
    work.poll(start + Duration::from_millis(100), command(1));
    assert_eq!(work.worked(), Worked::default(), "polls that lie close together are one");
    work.poll(start + Duration::from_secs(8), command(2));
    assert_eq!((work.worked().seconds, work.worked().still_s), (8.0, 5.0));
    assert!(work.worked().why.unwrap().starts_with("its supervisor did not run for 8.0 s"));
    // Likewise where no poll came at all.
    let said = Worked::default().stood_still_since(&Worked::default(), 10.0).unwrap();
    assert_eq!(said, "it stood still for 8.7 of 10.0 s: it was not seen to work");
}

#[test]
fn names_the_reason_that_took_the_longest() {
    let (mut work, start) = (WorkSoFar::default(), Instant::now());
    let stopped = || LoadPoll { family: vec![seen(20, 1, "sh", 'T', 4)], ..command(4) };
    work.poll(start, command(1));
    work.poll(start + Duration::from_secs(4), command(4));
    let late = work.worked().why.unwrap();
    assert!(late.starts_with("its supervisor did not run for 4.0 s"), "{late}");
    for second in 5..8 {
        work.poll(start + Duration::from_secs(second), stopped());
    }
    assert!(work.worked().why.unwrap().ends_with("(20) was stopped"));
}

#[test]
fn a_tenth_of_the_time_is_allowed() {
    let worked = |still_s| Worked { seconds: 30.0, still_s, why: None };
    assert_eq!(worked(2.9).stood_still_since(&Worked::default(), 30.0), None);
    assert!(worked(3.1).stood_still_since(&Worked::default(), 30.0).is_some());
    assert_eq!(worked(3.1).stood_still_since(&worked(3.1), 0.5), None);
}
