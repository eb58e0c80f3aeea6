// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--use`: one word from which every verb takes its defaults.

use std::fs;
use std::path::Path;

use crate::common::*;
use serde_json::Value;

/// Runs `prove --use` with short rows on the idle machine; the document, the manifest and the screen.
fn proven(folder: &Path, purpose: &str, more: &[&str]) -> (Value, Value, String) {
    let args = [&["--use", purpose, "--loads", "idle", "--json", "out.json"], more].concat();
    let ran = isolator(folder, &short("b", &args)).judged();
    (read(&folder.join("out.json")), read(&folder.join("b/manifest.json")), ran.stdout)
}

/// Each row as `PROBE PERIOD_NS LIMIT_NS`.
fn rows(document: &Value) -> Vec<String> {
    let row = |row: &Value| {
        let number = |name: &str| row[name].as_u64().map_or("-".to_string(), |ns| ns.to_string());
        format!("{} {} {}", row["probe"].as_str().unwrap(), number("period_ns"), number("limit_ns"))
    };
    document["rows"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn each_use_is_measured_with_its_probes_periods_and_limits() {
    skip_if!(skipped_for_lack_of_cpus());
    let two = ["--period", "2ms,4ms", "--limit", "2ms:1ms,4ms:50%"];
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("control:1kHz", &[], &["wakeup 1000000 100000"]),
        ("control:500us", &[], &["wakeup 500000 50000"]),
        ("poll", &[], &["spin - 100000"]),
        ("vm", &[], &["wakeup 1000000 100000", "spin - 100000"]),
        // Options win over the use.
        ("linuxcnc:25us+1ms", &two, &["wakeup 2000000 1000000", "wakeup 4000000 2000000"]),
        ("control:1kHz", &["--probe", "spin", "--limit", "1ms"], &["spin - 1000000"]),
    ];
    for (purpose, more, expected) in cases {
        let folder = folder();
        let (document, manifest, _) = proven(folder.path(), purpose, more);
        assert_eq!(rows(&document), *expected, "{purpose}");
        assert_eq!(manifest["asked"]["use"], *purpose);
        if purpose.starts_with("control") && more.is_empty() {
            assert_eq!(manifest["asked"]["limit"], "10%");
            assert!(document["use"]["grade"].is_null(), "{document:#}");
        }
    }
}

#[test]
fn each_thread_of_linuxcnc_has_a_limit_and_a_grade() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let (document, manifest, screen) = proven(folder.path(), "linuxcnc:500us+2ms", &[]);
    assert_eq!(rows(&document), ["wakeup 500000 20000", "wakeup 2000000 100000"]);
    assert_eq!(manifest["asked"]["limit"], "500us:20us,2ms:100us");
    let threads = document["use"]["threads"].as_array().unwrap();
    for (thread, row) in threads.iter().zip(document["rows"].as_array().unwrap()) {
        assert_eq!((&thread["worst_ns"], &thread["period_ns"]), (&row["max_ns"], &row["period_ns"]));
        let (worst, good) = (thread["worst_ns"].as_u64().unwrap(), thread["good_up_to_ns"].as_u64().unwrap());
        assert_eq!(thread["grade"] == "good", worst <= good, "{thread:#}");
    }
    assert_eq!(threads[0]["source"], "LinuxCNC documentation, Latency Test");
    let grade = document["use"]["grade"].as_str().unwrap();
    assert!(screen.contains(&format!("\n{grade} for linuxcnc:500us+2ms: base thread ")), "{screen}");
}

#[test]
fn an_audio_callback_has_its_budget_and_xruns() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let (document, _, screen) = proven(folder.path(), "audio:128@48000", &[]);
    assert_eq!(rows(&document), ["wakeup 2666667 1333334"]);
    assert!(screen.contains(" xruns in ") && screen.contains("  xruns  "), "{screen}");
    assert_eq!(document["use"]["threads"][0]["missed"], document["rows"][0]["missed"]);
}

#[test]
fn ethercat_is_driven_at_its_rate() {
    skip_if!(skipped_for_lack_of_cpus() || skipped_for_lack_of_root() || skipped_for_lack_of_permission());
    let folder = folder();
    let (document, ..) = proven(folder.path(), "ethercat:500Hz", &[]);
    assert_eq!(rows(&document)[0], "ethercat 2000000 200000");
}

#[test]
fn measure_takes_the_probe_of_the_use() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let mut args = short("b", &["--use", "control:250Hz", "--json", "-"]);
    args[0] = "measure";
    let document = isolator(folder.path(), &args).judged().json();
    assert_eq!(rows(&document), ["wakeup 4000000 400000"]);
}

#[test]
fn a_use_gives_a_program_its_limit_and_keeps_its_period() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let _looping = looping::Looping::start("used", 100_000);
    let me = looping::me("used");
    let args = ["monitor", &me, "--use", "linuxcnc:1ms", "--duration", "1s", "-o", "b", "--json", "-"];
    let document = isolator(folder.path(), &args).judged().json();
    assert_eq!(rows(&document)[0], format!("loop {} 100000", looping::PERIOD_NS));
    assert_eq!(document["use"]["threads"][0]["worst_ns"], document["rows"][0]["max_ns"]);
}

#[test]
fn doctor_and_plan_take_the_profile_of_the_use() {
    let folder = folder();
    for (purpose, profile) in [
        ("control:25us", "periodic"),
        ("linuxcnc:25us+1ms", "periodic"),
        ("audio:64@48000", "audio"),
        ("ethercat:1kHz", "periodic"),
        ("poll", "poll"),
        ("vm", "vm"),
    ] {
        let ran = isolator(folder.path(), &["doctor", "--use", purpose, "--json", "doctor.json"]).ended(0);
        let next = format!("next: isolator tune plan --use {purpose} --json plan.json\n");
        assert!(ran.stdout.ends_with(&next), "{purpose}: {}", ran.stdout);
        let document = read(&folder.path().join("doctor.json"));
        assert_eq!((&document["profile"], &document["use"]["asked"]), (&profile.into(), &purpose.into()));
        let plan =
            isolator(folder.path(), &["tune", "plan", "--no-reboot", "--use", purpose, "--json", "-", "-q"]);
        // A machine of one CPU gets no plan that isolates.
        if plan.status == Some(0) {
            assert_eq!(plan.json()["intent"]["profile"], profile, "{purpose}: {}", plan.stdout);
        }
    }
}

#[test]
fn each_verb_names_the_next_command() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let (document, _, screen) = proven(folder.path(), "control:1kHz", &[]);
    let next = screen.lines().last().unwrap();
    let expected = match document["verdict"]["outcome"].as_str().unwrap() {
        "exceeded" => "next: isolator why b",
        "unproven" => "next: isolator doctor --use control:1kHz",
        _ => "next: isolator prove --like b --duration 1h",
    };
    assert!(next.starts_with(expected), "{screen}");
    let plan = ["tune", "plan", "--use", "control:1kHz", "--cpus", "0"];
    let planned = isolator(folder.path(), &plan);
    if planned.status == Some(0) {
        let next = "next: isolator tune plan --use control:1kHz --cpus 0 --json plan.json\n";
        assert!(planned.stdout.ends_with(next), "{}", planned.stdout);
    }
}

#[test]
fn a_use_that_makes_no_sense_is_refused_in_one_line() {
    let cure = "write control:1kHz, control:25us, linuxcnc:25us+1ms, linuxcnc:1ms, audio:64@48000, ethercat:1kHz, poll or vm";
    let folder = folder();
    for (purpose, why) in [
        ("linuxcnc:", "linuxcnc lacks its rate or period"),
        ("linuxcnc:25us", "a base thread has a servo thread beside it"),
        ("audio:0@0", "'0' is not above zero"),
        ("control:0Hz", "'0' is not above zero"),
        ("control:1e400Hz", "'e400Hz' is no unit of a rate or a time"),
        ("control:99999999999999999999s", "its period is not between 1 us and 1 h"),
        ("ethercat", "ethercat lacks its rate or period"),
        ("poll:1kHz", "poll takes no value"),
        ("contrl:1kHz", "unknown use 'contrl' (did you mean control?)"),
    ] {
        let line = format!("cannot use '{purpose}' for --use: {why}; {cure}");
        for verb in [
            vec!["prove"],
            vec!["measure", "wakeup"],
            vec!["monitor", "1"],
            vec!["doctor"],
            vec!["tune", "plan"],
            vec!["fleet", "prove", "-i", "none"],
        ] {
            isolator(folder.path(), &[&verb[..], &["--use", purpose]].concat()).refused(&line);
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_limit_of_each_period_fits_the_periods() {
    skip_if!(skipped_for_lack_of_cpus());
    let cure = "give one limit for all periods, or one for each as 25us:10us,1ms:100us";
    let folder = folder();
    for (period, limit, line) in [
        ("1ms", "25us:10us", format!("cannot use the limit '25us:10us': no thread has the period 25 us; {cure}")),
        (
            "1ms,2ms",
            "1ms:10us",
            format!("cannot use the limit '1000us:10us': it has no limit for the period 2,000 us; {cure}"),
        ),
        (
            "1ms",
            "1ms:10us,1ms:20us",
            format!("cannot use the limit '1ms:10us,1ms:20us': it names the period 1ms twice; {cure}"),
        ),
        ("1ms", "10us,20us", format!("cannot use the limit '10us,20us': two limits stand for the same periods; {cure}")),
        (
            "1ms",
            "1ms:2ms",
            "the limit 2,000 us is above the period 1,000 us; a cycle that late is a missed period: give a limit up to the period".into(),
        ),
    ] {
        isolator(folder.path(), &["prove", "--period", period, "--limit", limit]).refused(&line);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_plan_keeps_its_use() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let (_, before, _) = proven(folder.path(), "linuxcnc:1ms+2ms", &[]);
    let args = short("c", &["--like", "b", "-q"]);
    isolator(folder.path(), &args).judged();
    assert_eq!(before["asked"], read(&folder.path().join("c/manifest.json"))["asked"]);
    isolator(folder.path(), &["compare", "b", "c"]).ended(0);
}

#[test]
fn shells_offer_uses_loads_probes_and_profiles() {
    for (shell, values) in [
        (
            "isolator.bash",
            ["linuxcnc:25us+1ms", "idle cpu io ", "wakeup spin toggle ", "periodic poll audio "],
        ),
        ("isolator.fish", ["linuxcnc:25us+1ms", "idle", "toggle", "periodic"]),
    ] {
        let text = fs::read_to_string(generated().join("completions").join(shell)).unwrap();
        for value in values {
            assert!(text.contains(value), "{shell}: {value}");
        }
    }
    // The help does not list them again.
    assert!(!isolator(generated(), &["prove", "--help"]).ended(0).stdout.contains("possible values"));
}
