// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--live`: a run as a page of HTTP while it goes on.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use proof::live::{LivePlan, Viewer};
use serde_json::Value;

use crate::common::{
    PROGRAM, command, folder, isolator, read, short, skipped, skipped_for_lack_of_cpus, wait_for,
};

/// A run of ten minutes with a page, and the page's address.
fn live(folder: &Path, more: &[&str]) -> (Child, String) {
    served(folder, &short("run", &[&["--duration", "10m", "--live=127.0.0.1:0"], more].concat()))
}

/// The program with a page, and the page's address.
fn served(folder: &Path, args: &[&str]) -> (Child, String) {
    let mut child = command(folder, args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut served = lines.filter_map(|line| Some(line.strip_prefix("live page: http://")?.to_string()));
    let address = served.next().unwrap();
    // A reader remains.
    std::thread::spawn(move || served.for_each(drop));
    (child, address)
}

/// Asks for `part` of the page at `address`.
fn ask(address: &str, method: &str, part: &str) -> String {
    let (host, number) = address.split_once('/').unwrap();
    ask_as(host, host, &format!("{method} /{number}{part}"))
}

/// The same by the name of another host.
fn ask_as(host: &str, address: &str, request: &str) -> String {
    let (mut peer, mut answer) = (TcpStream::connect(address).unwrap(), String::new());
    peer.write_all(format!("{request} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
    peer.read_to_string(&mut answer).unwrap();
    answer
}

fn state(address: &str) -> Value {
    let answer = ask(address, "GET", "state.json");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn a_page_shows_the_run_and_ends_it_with_results() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let (mut child, address) = live(folder.path(), &["--loads", "idle,cpu"]);
    wait_for("samples on the page", || state(&address)["series"][0]["count"].as_u64() > Some(0));
    let seen = state(&address);
    assert_eq!(seen["rows"].as_array().unwrap().len(), 2, "{seen}");
    assert_eq!(seen["ended"], Value::Null);
    let bars = seen["series"][0]["histogram"].as_array().unwrap();
    assert!(bars.iter().map(|bar| bar[2].as_u64().unwrap()).sum::<u64>() > 0, "{seen}");
    wait_for("two points", || state(&address)["series"][0]["points"].as_array().unwrap().len() > 1);
    // The threads that serve stay off the measured CPU.
    let measured = read(&folder.path().join("run/manifest.json"))["rows"][0]["cpu"].to_string();
    for thread in fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().flatten() {
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        let allowed =
            |line: &str| line.strip_prefix("Cpus_allowed_list:").map(|list| list.trim().to_string());
        if status.starts_with("Name:\tlive\n") {
            let allowed: machine::CpuSet = status.lines().find_map(allowed).unwrap().parse().unwrap();
            assert!(!allowed.contains(measured.parse().unwrap()), "{status}");
        }
    }
    let answer = ask(&address, "POST", "stop");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // As a browser does: it goes on asking until it has the results.
    let mut results = Value::Null;
    wait_for("the results", || {
        results = state(&address)["ended"].clone();
        !results.is_null()
    });
    let status = child.wait().unwrap().code().unwrap();
    assert_eq!(results["held"].as_bool().unwrap(), status == 0, "{results}");
    assert!(results["text"].as_str().unwrap().contains("report"), "{results}");
    let document = isolator(folder.path(), &["report", "run", "--json", "-"]).judged().json();
    let lines = results["lines"].to_string().replace('µ', "u");
    for reason in document["verdict"]["reasons"].as_array().unwrap() {
        assert!(lines.contains(reason.as_str().unwrap()), "{reason}: {lines}");
    }
    assert!(lines.contains("late cycles: "), "{lines}");
    let manifest = read(&folder.path().join("run/manifest.json"));
    assert_eq!(manifest["rows"][0]["state"], "interrupted");
    assert_eq!(manifest["rows"][0]["granted"]["page_faults"], 0);
}

/// The short form of `make proof-live`, which compares distributions, too.
#[test]
fn a_page_that_is_read_causes_no_page_fault_and_no_thread_on_the_measured_cpu() {
    skip_if!(skipped_for_lack_of_cpus());
    let folder = folder();
    let asked = short("run", &["--duration", "3s"]);
    // Folder and length are the plan's.
    let options = asked[3..].iter().filter(|word| !["--duration", "3s"].contains(word));
    let options = options.map(ToString::to_string).collect::<Vec<_>>();
    let viewers = vec![Viewer::Absent, Viewer::Reader];
    let plan = LivePlan { rounds: 1, viewers, duration: Duration::from_secs(3), options };
    let runs = proof::live::measure(Path::new(PROGRAM), folder.path(), &plan).unwrap();
    let (without, with) = (&runs[&Viewer::Absent], &runs[&Viewer::Reader]);
    assert_eq!((without.len(), with.len(), without[0].answers), (1, 1, 0));
    let run = &with[0];
    assert!(run.answers > 0 && run.looks > 0, "{} answers, {} looks", run.answers, run.looks);
    assert_eq!(run.page_faults(), Some(0));
    assert_eq!(run.on_measured_cpu, [] as [String; 0]);
    let count = |run: &proof::live::LiveRun| run.bundle.rows[0].series.latency.count();
    assert!(count(&without[0]) > 0 && count(run) > 0);
}

#[test]
fn an_address_that_is_taken_is_refused_before_the_run() {
    let folder = folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let live = format!("--live={}", taken.local_addr().unwrap());
    for args in [short("run", &[&live]), vec!["watch", &live]] {
        let line = isolator(folder.path(), &args).line();
        assert!(line.contains("choose another address and port"), "{line}");
    }
    assert!(!folder.path().join("run").exists());
}

#[test]
fn a_page_shows_what_interrupts_the_watched_cpus_and_ends_the_watch() {
    let folder = folder();
    let (mut child, address) =
        served(folder.path(), &["watch", "--interval", "50ms", "--live=127.0.0.1:0", "--quiet"]);
    let watch = || state(&address)["watch"].clone();
    wait_for("two points", || watch()["points"].as_array().is_some_and(|points| points.len() > 1));
    let seen = watch();
    let length = |part: &Value| part.as_array().unwrap().len();
    let cpus = length(&seen["cpus"]);
    assert!(cpus > 0 && length(&seen["interrupts"]) == cpus && length(&seen["sources"]) > 0, "{seen}");
    for source in seen["sources"].as_array().unwrap() {
        let rates = source["rates"].as_array().unwrap().iter().map(|rate| rate.as_f64().unwrap());
        let all = source["per_second"].as_f64().unwrap();
        assert!((rates.clone().sum::<f64>() - all).abs() < 1e-6 * all.max(1.0), "{source}");
        assert_eq!(rates.count(), cpus, "{source}");
    }
    // Who was not shown the address neither reads nor ends it, nor does a foreign site that was.
    let page = ask(&address, "GET", "");
    let (host, number) = address.split_once('/').unwrap();
    let number = number.trim_end_matches('/');
    assert!(page.starts_with("HTTP/1.1 200 ") && number.len() == 32 && !page.contains(number));
    for request in ["GET /", "GET /state.json", "POST /stop", "POST /1/stop", "POST /stop?token=1"] {
        let refused = ask_as(host, host, request);
        assert!(refused.starts_with("HTTP/1.1 403 ") && !refused.contains(number), "{refused}");
    }
    for request in [format!("GET /{number}/"), format!("POST /{number}/stop")] {
        let refused = ask_as("evil.example", host, &request);
        assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    }
    assert!(child.try_wait().unwrap().is_none(), "it goes on");
    assert!(ask(&address, "POST", "stop").starts_with("HTTP/1.1 200 "));
    let mut results = Value::Null;
    wait_for("the end", || {
        results = state(&address)["ended"].clone();
        !results.is_null()
    });
    assert!(results["text"].as_str().unwrap().starts_with("the watch ended after "), "{results}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

fn browser() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success()))
}

/// The page's body once the browser has drawn it.
fn drawn(browser: &str, folder: &Path, address: &str) -> String {
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--dump-dom",
            "--timeout=5000",
        ])
        .args([&profile, &format!("http://{address}")])
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let drawn = String::from_utf8(output.stdout).unwrap();
    drawn.split("<main>").nth(1).and_then(|rest| rest.split("<script>").next()).unwrap().to_string()
}

#[test]
fn a_browser_draws_the_run() {
    let browser = browser();
    skip_if!(skipped(browser.is_none(), "chromium") || skipped_for_lack_of_cpus());
    let folder = folder();
    let (mut child, address) = live(folder.path(), &["--threshold", "1ns"]);
    wait_for("spikes on the page", || !state(&address)["spikes"].as_array().unwrap().is_empty());
    wait_for("two points", || state(&address)["series"][0]["points"].as_array().unwrap().len() > 1);
    let body = drawn(browser.unwrap(), folder.path(), &address);
    let _ = child.kill();
    let _ = child.wait();
    for part in ["id=\"rows\"><tr", "class=\"bar", "class=\"max\" d=\"M", "limit ", "id=\"spikes\"><tr"] {
        assert!(body.contains(part), "{part}: {body}");
    }
}

#[test]
fn a_browser_draws_the_watch() {
    let browser = browser();
    skip_if!(skipped(browser.is_none(), "chromium"));
    let folder = folder();
    let (mut child, address) =
        served(folder.path(), &["watch", "--interval", "50ms", "--live=127.0.0.1:0", "--quiet"]);
    let points = || state(&address)["watch"]["points"].as_array().map_or(0, Vec::len);
    wait_for("two points", || points() > 1);
    let body = drawn(browser.unwrap(), folder.path(), &address);
    let _ = child.kill();
    let _ = child.wait();
    for part in [
        "All interrupts",
        "CPU 0</th>",
        "class=\"max\" d=\"M",
        "id=\"rows-section\" aria-labelledby=\"rows-title\" hidden",
    ] {
        assert!(body.contains(part), "{part}: {body}");
    }
}
