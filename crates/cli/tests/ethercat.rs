// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator ethercat simulate` as MainDevices and Wireshark see it, at one end of a pair of virtual
//! interfaces, in a network namespace without a name. Needs root and iproute2; SOEM and tshark where they are
//! asked for.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::*;
use rustix::process::Signal;
use serde_json::Value;

/// Runs `test` in a network of its own, where `main` and `segment` are the two ends of a wire.
fn on_a_wire(test: impl FnOnce() + Send + 'static) {
    if !rustix::process::geteuid().is_root() {
        println!("skipped (77): a network namespace needs root");
        return;
    }
    let ran = std::thread::spawn(|| {
        rt::packet::own_network().unwrap();
        ip("link add main type veth peer name segment");
        ip("link set main up");
        ip("link set segment up");
        test();
    });
    ran.join().unwrap();
}

#[track_caller]
fn ip(arguments: &str) {
    let ran = Command::new("ip").args(arguments.split(' ')).status();
    assert!(ran.is_ok_and(|status| status.success()), "ip {arguments}");
}

/// A segment at work, until it is told to end: then its document.
struct Simulated(Going);

impl Simulated {
    fn start(folder: &Path, more: &[&str]) -> Simulated {
        let args = ["ethercat", "simulate", "--interface", "segment", "--json", "did.json"];
        let going = Going::run(folder, &mut command(folder, &[&args, more].concat()));
        wait_for("the segment's socket", || {
            fs::read_to_string("/proc/thread-self/net/packet").unwrap().contains(" 88a4 ")
        });
        Simulated(going)
    }

    fn end(self, folder: &Path) -> Value {
        self.0.signal(Signal::TERM);
        self.0.end().ended(0);
        let document = read(&folder.join("did.json"));
        conforms(&document, "ethercat-simulate");
        document
    }
}

/// Python with pysoem; `None` where it is not here. The bootstrap installs it beside the tools.
fn soem(cycles: &str) -> Option<Command> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = || {
        let mut python = Command::new("python3");
        python.env("PYTHONPATH", here.join("../../.tools/python")).env("PYTHONDONTWRITEBYTECODE", "1");
        python
    };
    let found = python().args(["-c", "import pysoem"]).output().is_ok_and(|output| output.status.success());
    if skipped(!found, "it needs python3 with pysoem") {
        return None;
    }
    let mut python = python();
    python.arg(here.join("tests/soem.py")).args(["main", cycles]);
    Some(python)
}

#[test]
fn soem_reaches_op_with_clocks_and_each_of_its_working_counters_is_right() {
    on_a_wire(|| {
        let folder = folder();
        let Some(mut soem) = soem("500") else { return };
        let segment = Simulated::start(folder.path(), &["--devices", "3", "--drift-ppb", "20000"]);
        let ran = Ran::from(soem.output().unwrap()).ended(0);
        let said = ran.json();
        assert_eq!((said["found"].as_u64(), said["state"].as_u64()), (Some(3), Some(8)), "{said:#}");
        assert_eq!((said["expected"].as_u64(), said["right"].as_u64()), (Some(9), Some(500)), "{said:#}");
        assert_eq!(said["echoed"], serde_json::json!([true, true, true]), "outputs come back as inputs");
        assert_eq!(said["clocks"], true);
        for list in ["names", "said"] {
            let names = Value::from(vec!["isolator simulated SubDevice"; 3]);
            assert_eq!(said[list], names, "{list}");
        }
        let did = segment.end(folder.path());
        assert!(did["process_data"].as_u64().unwrap() >= 500, "{did:#}");
        assert_eq!(did["ignored"], 0, "{did:#}");
    });
}

#[test]
fn a_capture_is_a_valid_conversation_for_tshark() {
    on_a_wire(|| {
        let folder = folder();
        let Some(mut soem) = soem("100") else { return };
        skip_if!(skipped(!installed("tshark"), "it needs tshark"));
        let segment = Simulated::start(folder.path(), &["--capture", "frames.pcap"]);
        Ran::from(soem.output().unwrap()).ended(0);
        let did = segment.end(folder.path());
        let tshark = |args: &[&str]| {
            let ran = Command::new("tshark")
                .args(["-r", "frames.pcap"])
                .args(args)
                .current_dir(folder.path())
                .output();
            let ran = Ran::from(ran.unwrap()).ended(0);
            ran.stdout.lines().map(String::from).collect::<Vec<_>>()
        };
        let protocols = tshark(&["-T", "fields", "-e", "frame.protocols"]);
        // Each frame twice: as it came, and as it went back.
        assert_eq!(protocols.len() as u64, 2 * did["frames"].as_u64().unwrap());
        let others: Vec<&String> = protocols.iter().filter(|line| !line.contains(":ecatf:ecat")).collect();
        assert!(others.is_empty(), "{others:?}");
        assert_eq!(tshark(&["-Y", "_ws.malformed"]), [""; 0]);
        // And it is looked at: the same filter finds what is cut.
        let whole = fs::read(folder.path().join("frames.pcap")).unwrap();
        assert!(!tshark(&["-Y", "ecat.cmd == 12"]).is_empty(), "process data");
        assert!(!tshark(&["-Y", "ecat_mailbox.coe"]).is_empty(), "mailboxes");
        let mut broken = whole;
        // A length within the first frame that leads out of it: pcap's head, a packet's head, up to the
        // datagram's.
        broken[24 + 16 + 22] = 0xFF;
        broken[24 + 16 + 23] = 0x07;
        fs::write(folder.path().join("frames.pcap"), broken).unwrap();
        assert_eq!(tshark(&["-Y", "_ws.malformed", "-c", "1"]).len(), 1);
    });
}

#[test]
fn the_probe_counts_each_cycle_and_says_what_latencies_do_not_tell() {
    skip_if!(skipped_for_lack_of_root() || skipped_for_lack_of_cpus());
    let folder = folder();
    let args = ["--probe", "ethercat", "--period", "4ms", "--causes", "off", "--json", "-", "--quiet"];
    let ran = isolator(folder.path(), &short("b", &args)).judged();
    let document = ran.json();
    let probes = document["rows"].as_array().unwrap().iter().map(|row| row["probe"].as_str().unwrap());
    assert_eq!(probes.collect::<Vec<_>>(), ["ethercat", "sync0", "dc-drift"]);
    let row = &document["rows"][0];
    assert_eq!((row["probe"].as_str(), row["period_ns"].as_u64()), (Some("ethercat"), Some(4_000_000)));
    let told = &row["granted"]["ethercat"];
    assert_eq!((&told["sub_devices"], &told["device"]), (&3.into(), &Value::Null), "{told:#}");
    assert_eq!((&told["cycles"], &told["wrong_counters"]), (&row["count"], &0.into()), "{told:#}");
    // Each frame that came back has passed the reference SubDevice; its clock is asked for once in 16 cycles.
    let count = |row: usize| document["rows"][row]["count"].as_u64().unwrap();
    assert_eq!(count(1), count(0) - told["not_back"].as_u64().unwrap(), "{document:#}");
    assert!(count(2) <= count(0) / 16, "{document:#}");
    assert_eq!(document["rows"][1]["limit_ns"], 4_000_000, "a period");
    assert_eq!(told["clocks_apart_ns"], document["rows"][2]["max_ns"], "{document:#}");
    let manifest = read(&folder.path().join("b/manifest.json"));
    conforms(&manifest, "manifest");
    let notes = manifest["notes"].as_array().unwrap();
    let notes = notes
        .iter()
        .filter_map(Value::as_str)
        .filter(|note| note.contains("3 SubDevices at a simulated segment"));
    assert_eq!(notes.count(), 1, "{manifest:#}");
}

#[test]
fn a_device_is_driven_by_the_probe_and_refused_where_another_main_device_is_on_it() {
    skip_if!(skipped_for_lack_of_cpus());
    on_a_wire(|| {
        let folder = folder();
        let args = [
            "--probe", "ethercat", "--device", "main", "--period", "4ms", "--causes", "off", "--json", "-",
            "--quiet",
        ];
        let none = isolator(folder.path(), &short("a", &args)).line();
        assert_eq!(
            none,
            "cannot bring the segment at main to OP: no SubDevice answers; look at cables and power"
        );
        let segment = Simulated::start(folder.path(), &["--devices", "2"]);
        let ran = isolator(folder.path(), &short("b", &args)).judged();
        let told = &ran.json()["rows"][0]["granted"]["ethercat"];
        assert_eq!((&told["sub_devices"], &told["device"]), (&2.into(), &"main".into()), "{told:#}");
        // A run that goes on is another MainDevice for the next one.
        let going = Going::start(folder.path(), &args[..8]);
        wait_for("a bundle", || going.bundle.join("manifest.json").exists());
        going.wait_for_seconds(1);
        // Also where no SubDevice answers it.
        segment.0.signal(Signal::STOP);
        let second = isolator(folder.path(), &short("c", &args)).line();
        segment.0.signal(Signal::CONT);
        assert!(
            second.starts_with("cannot drive the segment at main: another MainDevice is on the wire"),
            "{second}"
        );
        going.signal(Signal::INT);
        going.end();
        let did = segment.end(folder.path());
        assert_eq!(did["ignored"], 0, "{did:#}");
    });
}

#[test]
fn an_interface_that_others_need_is_refused_unless_forced() {
    on_a_wire(|| {
        let folder = folder();
        let simulate = |interface: &str, more: &[&str]| {
            let args = ["ethercat", "simulate", "--duration", "100ms", "--interface", interface];
            isolator(folder.path(), &[&args, more].concat())
        };
        let lonely = "cannot use the interface eth9: there is no such interface; choose from main, segment";
        simulate("eth9", &[]).refused(lonely);
        simulate("lo", &[])
            .refused("cannot use the interface lo: it is a loopback; choose an Ethernet interface");
        ip("addr add 192.0.2.1/24 dev segment");
        let why = "it carries the address 192.0.2.1; choose an interface that has nothing but SubDevices on it, take the address away, or --force";
        simulate("segment", &[]).refused(&format!("cannot use the interface segment: {why}"));
        simulate("segment", &["--force"]).ended(0);
        ip("route add default via 192.0.2.2");
        let why = "the default route leads through it; choose an interface that has nothing but SubDevices on it, or --force";
        simulate("segment", &[]).refused(&format!("cannot use the interface segment: {why}"));
        ip("link set segment down");
        let why = "it is down, or nothing is connected; connect the first SubDevice, switch it on, and: ip link set NAME up";
        simulate("segment", &["--force"]).refused(&format!("cannot use the interface segment: {why}"));
    });
}

#[test]
fn what_makes_no_sense_to_simulate_is_refused() {
    let folder = folder();
    let cases = [
        (
            ["--devices", "0"],
            "cannot use '0' for --devices: it is not a number of SubDevices; choose from 1 to 256",
        ),
        (
            ["--devices", "-1"],
            "cannot use '-1' for --devices: it is not a number of SubDevices; choose from 1 to 256",
        ),
        (
            ["--drift-ppb", "2000000"],
            "cannot use '2000000' for --drift-ppb: it is not a drift of a clock; choose from -1000000 to 1000000",
        ),
        (
            ["--fault", "lost"],
            "cannot use 'lost' for --fault: cannot make the fault 'lost': it must be lost@FRAME, late:TIME@FRAME, counter@FRAME or unplug:SUBDEVICE@FRAME, each with /EVERY",
        ),
    ];
    for (more, line) in cases {
        let args = ["ethercat", "simulate", "--interface", "lo"];
        let said = isolator(folder.path(), &[&args[..], &more].concat()).line();
        assert!(said.starts_with(line), "{said}");
    }
}
