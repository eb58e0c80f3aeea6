// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator fleet`: bundles that the program measured or imported, stored and asked.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::*;
use crate::judge::{run, stored};
use fleet::synthetic::{FleetSize, write};

const ANSIBLE: &str = "it needs Ansible: tools/bootstrap test";

const SMALL: FleetSize = FleetSize { cpus: 2, loads: 1, seconds: 8 };

fn made_up(folder: &Path, machines: u64) {
    fs::create_dir_all(folder.join("bundles")).unwrap();
    for number in 0..machines {
        write(&folder.join(format!("bundles/m{number}.tar.zst")), number, 0, 1.0, SMALL).unwrap();
    }
}

#[test]
fn a_measured_bundle_is_stored_with_its_host_and_an_import_without_one_is_said() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    bundle(folder.path(), "measured", &[]);
    fs::write(folder.path().join("t.txt"), "T: 0 ( 1) P:80 I:1000 C: 10 Min: 1 Act: 2 Avg: 2 Max: 5\n")
        .unwrap();
    isolator(folder.path(), &["import", "t.txt", "-o", "imported"]).ended(0);
    let store =
        |bundles: &[&str]| isolator(folder.path(), &[&["fleet", "store", "-o", "store"], bundles].concat());
    let ran = store(&["measured", "imported"]).ended(0);
    assert_eq!(
        ran.stdout,
        "bundles: 1 added, 0 known already, 1 not read\nnext: isolator fleet report store\n"
    );
    let line = "isolator: not read: imported: it does not say on which machine it was measured\n";
    assert_eq!(ran.stderr, line);
    let ran = store(&["measured"]).ended(0);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("bundles: 0 added, 1 known already, 0 not read\nnext: isolator fleet report store\n", "")
    );
    assert_eq!(
        store(&["imported"]).ended(1).stderr.lines().last(),
        Some("isolator: cannot fill store: no bundle could be read")
    );
    store(&["nothing"]).refused("cannot open nothing: no such file or directory; check the path");
    skip_if!(skipped(!installed("duckdb"), "it needs duckdb: tools/bootstrap test"));
    let document = isolator(folder.path(), &["fleet", "report", "store", "--json", "-"]).judged();
    let (status, document) = (document.status, document.json());
    conforms(&document, "fleet");
    let manifest = read(&folder.path().join("measured/manifest.json"));
    assert_eq!(document["machines"][0]["hostname"], manifest["machine"]["hostname"]);
    let verdict = read(&folder.path().join("measured/verdict.json"));
    assert_eq!(document["machines"][0]["outcome"], verdict["outcome"]);
    assert_eq!(status, Some(if verdict["held"] == true { 0 } else { 2 }));
    assert_eq!(document["unread"][0]["why"], "it does not say on which machine it was measured");
}

#[test]
fn without_duckdb_the_line_says_how_to_get_it() {
    let folder = folder();
    made_up(folder.path(), 1);
    isolator(folder.path(), &["fleet", "store", "-o", "store", "bundles"]).ended(0);
    let mut report = command(folder.path(), &["fleet", "report", "store"]);
    let ran: Ran = report.env("PATH", folder.path()).output().unwrap().into();
    ran.refused(
        "cannot run duckdb: it is not installed; install it: pip install --require-hashes -r fleet/requirements.txt in a \
         clone of Isolator, or from https://duckdb.org",
    );
    let help = isolator(folder.path(), &["fleet", "--help"]);
    assert!(help.stdout.contains(fleet::INSTALL), "{}", help.stdout);
    isolator(folder.path(), &["fleet", "report", "bundles"])
        .refused("cannot open the store bundles: it has no part-0001; fill one with isolator fleet store");
    isolator(folder.path(), &["fleet", "query", "nothing"]).refused(
        "cannot ask nothing: there is no such query; choose one of totals, machines, classes, outliers, unfit, drift, \
         settings, clocks, duplicates, unread, percentiles",
    );
}

#[test]
fn what_cannot_be_asked_of_an_inventory_is_refused_and_leaves_nothing() {
    let folder = folder();
    let fleet = |args: &[&str]| isolator(folder.path(), &[&["fleet"], args].concat());
    fleet(&["prove", "-i", "nowhere"])
        .refused("cannot read the inventory nowhere: no such file or directory; check the path");
    fleet(&["prove", "-i", "a,", "--", "--limt", "50us"])
        .refused("isolator prove takes no '--limt'; did you mean --limit?; see isolator prove --help");
    fleet(&["apply", "-i", "a,", "--batches", "1,0%"]).refused(
        "cannot use '0%' for --batches: neither a number of machines nor a share of them; write 3 or 10%",
    );
    fs::write(folder.path().join("shared"), "a\n").unwrap();
    fs::set_permissions(folder.path().join("shared"), fs::Permissions::from_mode(0o666)).unwrap();
    fleet(&["prove", "-i", "shared"]).refused(
        "cannot use the inventory shared: it may be changed by other users; Ansible runs what it says: use one of your own, or \
         --force",
    );
    fs::remove_file(folder.path().join("shared")).unwrap();
    let mut without = command(folder.path(), &["fleet", "prove", "-i", "a,"]);
    let ran: Ran = without.env("PATH", folder.path()).output().unwrap().into();
    ran.refused(
        "cannot run ansible-inventory: it is not installed; install it: pip install --require-hashes -r \
         fleet/requirements.txt in a clone of Isolator, or your distribution's package",
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    skip_if!(skipped(!installed("ansible-inventory"), ANSIBLE));
    fleet(&["prove", "-i", "a,b,", "--hosts", "c"])
        .refused("cannot read the inventory a,b,: no machine is called c; see ansible-inventory --graph");
    fs::write(folder.path().join("twice"), "a ansible_host=10.0.0.1\nb ansible_host=10.0.0.1\n").unwrap();
    fleet(&["prove", "-i", "twice"]).refused(
        "cannot use the inventory twice: a and b are the same machine (10.0.0.1 port 22), and would disturb each \
         other; take one out, or use --force",
    );
    fs::write(folder.path().join("broken"), "[robots\na\n").unwrap();
    let line = fleet(&["prove", "-i", "broken"]).ended(1).line();
    assert!(line.starts_with("cannot read the inventory broken: "), "{line}");
}

#[test]
fn a_machine_of_an_inventory_is_measured_once_and_its_bundle_is_brought() {
    skip_if!(skipped(!installed("ansible-playbook"), ANSIBLE) || skipped_for_lack_of_cpus());
    let folder = folder();
    inventory(folder.path());
    let prove = |more: &[&str]| {
        let asked = ["fleet", "prove", "-i", "inventory", "-o", "monday", "--json=told.json"];
        isolator(folder.path(), &[&asked, more].concat()).judged();
        let told = read(&folder.path().join("told.json"));
        conforms(&told, "fleet-run");
        told["hosts"][0].clone()
    };
    let words = ["--", "--duration", "1s", "--warm-up", "0s", "--causes", "off"];
    let would = prove(&[&["--check"], &words[..]].concat());
    assert_eq!((would["outcome"].as_str(), &would["changed"]), (Some("would-change"), &1.into()), "{would}");
    assert!(!folder.path().join("isolator").exists());
    let first = prove(&words);
    let bundle = folder.path().join("monday").join(first["bundle"].as_str().unwrap());
    let shown = isolator(folder.path(), &["report", bundle.to_str().unwrap(), "--json"]).judged().json();
    assert_eq!(first["outcome"], shown["verdict"]["outcome"], "{first}");
    // Neither the program that was brought nor what it wrote is left there.
    nothing_is_left(folder.path());
    let again = prove(&words);
    assert_eq!((&again["changed"], &again["bundle"]), (&0.into(), &first["bundle"]), "{again}");
    nothing_is_left(folder.path());
}

/// Checks that a run leaves nothing on the machine of [`inventory`] that it brought there.
fn nothing_is_left(folder: &Path) {
    for name in ["isolator", "kept"] {
        assert!(!folder.join(name).exists(), "{name} is left in {}", folder.display());
    }
    let exe = |entry: fs::DirEntry| fs::read_link(entry.path().join("exe")).unwrap_or_default();
    let own = fs::read_dir("/proc").unwrap().flatten().map(exe).find(|exe| exe.starts_with(folder));
    assert_eq!(own, None, "a process is left");
}

/// An inventory of this machine, whose files lie below `folder`.
fn inventory(folder: &Path) {
    let here = folder.display();
    let inventory = format!(
        "here ansible_connection=local ansible_python_interpreter=/usr/bin/python3 isolator_become=false \
         isolator_path={here}/isolator isolator_evidence={here}/kept/run isolator_brought={here}/kept/brought \
         isolator_plan_file={here}/kept/plan.json\n"
    );
    fs::write(folder.join("inventory"), inventory).unwrap();
}

#[test]
fn a_run_that_is_interrupted_leaves_nothing_on_the_machine() {
    skip_if!(skipped(!installed("ansible-playbook"), ANSIBLE) || skipped_for_lack_of_cpus());
    let folder = folder();
    inventory(folder.path());
    let asked = ["fleet", "prove", "-i", "inventory", "-o", "monday", "--json=told.json"];
    let words = ["--", "--duration", "10m", "--causes", "off"];
    let mut fleet = command(folder.path(), &[&asked[..], &words].concat());
    // A group of its own, as a shell gives it: Ctrl-C reaches Ansible as well.
    let mut fleet = fleet.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the measurement", || folder.path().join("kept/run/manifest.json").exists());
    let group = rustix::process::Pid::from_child(&fleet);
    rustix::process::kill_process_group(group, rustix::process::Signal::INT).unwrap();
    assert_eq!(fleet.wait().unwrap().code(), Some(1));
    nothing_is_left(folder.path());
}

#[test]
fn a_measurement_ends_with_the_session_that_started_it() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let asked = short("run", &["--duration", "10m", "--end-with-session"]).join(" ");
    let mut shell = Command::new("sh");
    // The shell stays, as sshd's does.
    shell.args(["-c", &format!("{PROGRAM} {asked}; true")]).current_dir(folder.path());
    let mut shell = shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let state = || {
        let text = fs::read_to_string(folder.path().join("run/manifest.json")).unwrap_or_default();
        serde_json::from_str::<serde_json::Value>(&text).map_or(String::new(), |all| all["state"].to_string())
    };
    wait_for("the measurement", || state() == "\"running\"");
    shell.kill().unwrap();
    shell.wait().unwrap();
    wait_for("its end", || state() == "\"interrupted\"");
}

#[test]
fn every_example_of_the_page_runs() {
    skip_if!(skipped(!installed("duckdb"), "it needs duckdb: tools/bootstrap test"));
    let folder = folder();
    made_up(folder.path(), 24);
    // How seconds of a busy machine differ must not decide here.
    for name in ["baseline", "monday", "now"] {
        stored(folder.path(), name, &run(60, 0));
    }
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/howto/fleet.md")).unwrap();
    let blocks = page.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    // Those on an inventory's machines run in make proof-fleet, those on clusters in make proof-cluster; a
    // loop is scraped in tests/prometheus.rs.
    let elsewhere = ["-i inventory", "fleet/cluster", "isolator monitor"];
    let is_here = |block: &&str| !elsewhere.iter().any(|word| block.contains(word));
    let examples = blocks.filter(is_here).collect::<Vec<_>>();
    assert_eq!(examples.len(), 5);
    let program = Path::new(PROGRAM).parent().unwrap().display().to_string();
    let path = format!("{program}:{}", std::env::var("PATH").unwrap_or_default());
    for example in examples {
        let mut shell = Command::new("sh");
        shell.args(["-c", example]).current_dir(folder.path()).env("PATH", &path);
        let ran: Ran = shell.output().unwrap().into();
        // Some of the made-up machines fail.
        let good = ran.status == Some(if example.contains("fleet report") { 2 } else { 0 });
        assert!(good && !ran.stdout.is_empty(), "{example}: {ran:#?}");
    }
    let html = fs::read_to_string(folder.path().join("fleet.html")).unwrap();
    assert!(html.contains("host-00007"), "{html}");
    for foreign in ["<script", "http:", "https:", "src="] {
        assert!(!html.contains(foreign), "{foreign}");
    }
    conforms(&read(&folder.path().join("fleet.json")), "fleet");
    conforms(&read(&folder.path().join("gate.json")), "gate");
    let xml = fs::read_to_string(folder.path().join("gate.xml")).unwrap();
    assert!(xml.contains("errors=\"0\"") && xml.contains("name=\"p99\""), "{xml}");
}
