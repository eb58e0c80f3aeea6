// SPDX-License-Identifier: MIT OR Apache-2.0
//! Impossible requests are refused in one line (operation, object, reason, cure) with status 1, and leaves
//! nothing.

use crate::common::*;

/// Every refusal here comes before anything is written.
#[track_caller]
fn refuses(cases: &[(&str, &str)]) {
    let folder = folder();
    for (args, line) in cases {
        let args = args.split(' ').map(|arg| if arg == "''" { "" } else { arg }).collect::<Vec<_>>();
        isolator(folder.path(), &args).refused(line);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_command_line_that_cannot_be_read_is_refused() {
    refuses(&[
        ("proof", "there is no verb 'proof'; did you mean prove?; see isolator --help"),
        (
            "xyzzy",
            "there is no verb 'xyzzy'; choose from prove, measure, monitor, lint, load, report, why, record, watch, compare, gate, fleet, import, export, lab, ethercat, kernel, run, doctor, task, tune, setup-user; see isolator --help",
        ),
        ("prove --foo", "isolator prove takes no '--foo'; see isolator prove --help"),
        (
            "prove --duratoin 1s",
            "isolator prove takes no '--duratoin'; did you mean --duration?; see isolator prove --help",
        ),
        ("measure", "isolator measure lacks <PROBE>; see isolator measure --help"),
        ("compare before", "isolator compare lacks <AFTER>; see isolator compare --help"),
        (
            "prove --period 1000",
            "cannot use '1000' for --period: it has no unit; write 1000us, 1000ms or 1000s",
        ),
        (
            "prove --period -1ms",
            "cannot use '-1ms' for --period: it is not a time above zero; write 100us, 1ms, 20s or 24h",
        ),
        (
            "prove --duration -5s",
            "cannot use '-5s' for --duration: it is not a time above zero; write 100us, 1ms, 20s or 24h",
        ),
        (
            "prove --loops -3",
            "cannot use '-3' for --loops: invalid digit found in string; see isolator prove --help",
        ),
        (
            "prove --cpus x",
            "cannot use 'x' for --cpus: 'x' is not a list of CPUs: a CPU is a number; write it as 0,2-5",
        ),
        ("prove --cpus ''", "cannot use '' for --cpus: it names no CPU; write it as 0,2-5"),
    ]);
}

#[test]
fn a_run_of_which_too_little_is_known_is_refused() {
    let known = "idle, cpu, io, memory, system, l2, storage, net, timers, ipi, ethercat, gpu, gpu=COMMAND, custom=COMMAND, all";
    let load = format!("cannot load the machine with 'disk': there is no such load; choose from {known}");
    let no_probe = format!("there is no probe 'foo'; choose from {}", measure::probes::NAMES.join(", "));
    let near = "cannot load the machine with 'cpuu': there is no such load; did you mean cpu?";
    refuses(&[
        ("prove --loads idle,disk", &load),
        ("prove --loads idle,cpuu", near),
        ("load cpuu", near),
        ("prove --probe wakup", "there is no probe 'wakup'; did you mean wakeup?"),
        ("measure hardwrae", "there is no probe 'hardwrae'; did you mean hardware?"),
        ("prove --probe foo", &no_probe),
        ("prove --probe wakeup,foo", &no_probe),
        ("measure foo", &no_probe),
        ("prove --policy fif", "there is no policy 'fif'; did you mean fifo?"),
        (
            "prove --accept steal,not-realtime-kernel",
            "there is no taint 'not-realtime-kernel' to accept; did you mean not-real-time-kernel?",
        ),
        ("prove --timer hpet", "there is no timer 'hpet'; choose from nanosleep, timerfd"),
        (
            "prove --loads gpu,gpu=true",
            "cannot measure under 'gpu' and 'gpu=true' in one run: both rows would be called gpu; measure them one after the other",
        ),
        (
            "prove --json nowhere/out.json",
            "cannot write nowhere/out.json: there is no folder nowhere; make it, or choose another path",
        ),
        ("lab matrix deferral --json=/", "cannot write /: it is a folder; give the name of a file"),
        ("lint --junit /tmp --command true", "cannot write /tmp: it is a folder; give the name of a file"),
        (
            "export nothing --as excel",
            "cannot export as excel: it is not a format that can be written; choose one of cyclictest, rtla, csv, json, ktap, lava, trace, openmetrics, archive",
        ),
    ]);
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    skip_if!(skipped_for_lack_of_cpus());
    refuses(&[
        ("prove --period 0", "a period of 0 was asked; give a period such as 1ms"),
        (
            "prove --limit 2ms",
            "the limit 2,000 us is above the period 1,000 us; a cycle that late is a missed period: give a limit up to the period",
        ),
        (
            "prove --limit -5us",
            "cannot use the limit '-5us': it is not a time above zero; give a time as 100us, or a share of the period as 10%",
        ),
        (
            "prove --limit 0%",
            "cannot use the limit '0%': it is not a time above zero; give a time as 100us, or a share of the period as 10%",
        ),
        ("prove --duration 0", "a duration of 0 measures nothing; give --duration such as 20s"),
        ("prove --loops 0", "0 loops measure nothing; give --loops such as 100000"),
        (
            "prove --probe spin --loops 9",
            "the spin probe has no cycles, so --loops does not end it; give --duration as well",
        ),
        (
            "prove --threshold 0",
            "a threshold of 0 makes a spike of every sample; give --threshold such as 100us",
        ),
        (
            "prove --claim 2",
            "the claim 2 is not a rate between 0 and 1; give --claim such as 0.001: fewer than one cycle in a thousand is late",
        ),
        (
            "prove --claim nan",
            "the claim NaN is not a rate between 0 and 1; give --claim such as 0.001: fewer than one cycle in a thousand is late",
        ),
        ("prove --priority 0", "priority 0 was given for SCHED_FIFO; give --priority from 1 to 99"),
        ("prove --priority 100", "priority 100 was given for SCHED_FIFO; give --priority from 1 to 99"),
        (
            "run --priority 100 -- true",
            "cannot use priority 100 with fifo: it is not 1 to 99; choose 1 to 98",
        ),
    ]);
}

#[test]
fn an_isolator_that_is_not_there_is_refused_with_the_kernel_that_has_it() {
    skip_if!(
        skipped_for_lack_of_cpus() || skipped(std::path::Path::new("/dev/isolator").exists(), "it is there")
    );
    let names = "no deferral has that name; choose from default, clock, resched, ipi, ktlb, exclusive";
    let wrong = format!("cannot isolate with 'tlb': {names}");
    let device = "cannot open /dev/isolator: no such file or directory; boot a kernel with the kernel part; isolator kernel build makes one";
    refuses(&[
        ("measure spin --isolate", device),
        ("prove --isolate=default,ktlb", device),
        ("measure spin --isolate=tlb", &wrong),
        ("lab run quiet --isolate=tlb", &wrong),
    ]);
}

#[test]
fn cpus_that_are_not_there_are_refused() {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let online = online.trim();
    let all = online.parse::<machine::CpuSet>().unwrap().len();
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    skip_if!(skipped_for_lack_of_cpus() || skipped(allowed < all, "it needs all CPUs of the machine"));
    let choose = format!("choose from the online cpus {online}");
    refuses(&[
        ("prove --cpus 8000", &format!("this machine has no cpu 8000; {choose}")),
        ("prove --cpus 0 --house-keeping 8000", &format!("this machine has no cpu 8000; {choose}")),
        (
            "load timers --cpus 8000",
            &format!("cannot load cpus 8000: they are not online; choose from {online}"),
        ),
        (
            "run --cpus 0,8000 -- true",
            &format!("cannot run on cpus 8000: they are not online; choose from {online}"),
        ),
        (
            "prove --cpus 0 --house-keeping 0",
            "cpu 0 would be measured and do the housekeeping; loads would run on the measured CPU: take it out of --cpus or out of --house-keeping",
        ),
        (
            &format!("prove --cpus {online}"),
            &format!(
                "cpus {online} are all there are: none is left for loads and the control thread; leave at least one CPU out of --cpus"
            ),
        ),
    ]);
}

#[test]
fn what_is_asked_twice_is_measured_once() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let twice = ["--loads", "idle,idle", "--probe", "wakeup,wakeup", "--period", "1ms,1ms", "--json", "-"];
    let json = isolator(folder.path(), &short("b", &twice)).judged().json();
    assert_eq!(json["rows"].as_array().unwrap().len(), 1, "{json:#}");
}

#[test]
fn every_probe_refuses_each_bad_value_in_one_line() {
    let probes = measure::probes::NAMES.into_iter().chain(["message-futex"]);
    let values = [
        ("--period 0us", "isolator: a period of 0 was asked; give a period such as 1ms"),
        ("--period 1ms,0us", "isolator: a period of 0 was asked; give a period such as 1ms"),
        ("--limit 0", "isolator: cannot use the limit '0': it is not a time above zero; "),
        ("--limit -3us", "isolator: cannot use the limit '-3us': it is not a time above zero; "),
        ("--duration 0s", "isolator: a duration of 0 measures nothing; give --duration such as 20s"),
        ("--loops 0", "isolator: 0 loops measure nothing; give --loops such as 100000"),
        ("--threshold 0us", "isolator: a threshold of 0 makes a spike of every sample; "),
        ("--claim 1", "isolator: the claim 1 is not a rate between 0 and 1; "),
        ("--priority 0", "isolator: priority 0 was given for SCHED_FIFO; give --priority from 1 to 99"),
        ("--priority 100", "isolator: priority 100 was given for SCHED_FIFO; give --priority from 1 to 99"),
        ("--policy fif", "isolator: there is no policy 'fif'; did you mean fifo?"),
        ("--timer hpet", "isolator: there is no timer 'hpet'; choose from nanosleep, timerfd"),
        ("--accept stael", "isolator: there is no taint 'stael' to accept; did you mean steal?"),
        ("--isolate=nothing", "isolator: cannot "),
    ];
    let folder = folder();
    for probe in probes {
        for (value, line) in values {
            let args = ["measure", probe].into_iter().chain(value.split(' ')).collect::<Vec<_>>();
            let ran = isolator(folder.path(), &args);
            assert_eq!(ran.status, Some(1), "{probe} {value}: {}", ran.stderr);
            assert!(
                ran.stderr.starts_with(line) && ran.stderr.lines().count() == 1,
                "{probe} {value}: {}",
                ran.stderr
            );
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn an_option_that_no_probe_of_the_run_uses_is_refused() {
    skip_if!(skipped_for_lack_of_cpus());
    let periodic = "it is for a probe with a period; leave it out";
    let response = "it is for the response probe; leave it out";
    let ethercat = "it is for ethercat, as a probe or a load; leave it out";
    refuses(&[
        ("measure spin --period 1ms", &format!("--period has no effect on spin: {periodic}")),
        (
            "prove --probe spin,hardware --period 1ms",
            &format!("--period has no effect on spin, hardware: {periodic}"),
        ),
        (
            "measure toggle --timer timerfd",
            "--timer has no effect on toggle: it is for the wakeup probe; leave it out",
        ),
        (
            "prove --policy other --priority 3",
            "--priority has no effect on wakeup: it is for the policies fifo and rr; leave it out",
        ),
        ("measure wakeup --role generator", &format!("--role has no effect on wakeup: {response}")),
        ("measure wakeup --in 3", &format!("--in has no effect on wakeup: {response}")),
        ("prove --device lo", &format!("--device has no effect on wakeup: {ethercat}")),
    ]);
}
