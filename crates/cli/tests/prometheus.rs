// SPDX-License-Identifier: MIT OR Apache-2.0
//! A loop's figures for Prometheus: in a file, over HTTP in both formats, and in a real Prometheus, whose
//! counts are the bundle's.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::looping::{Looping, me};
use crate::common::stranger::Stranger;
use crate::common::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// Rows of so many cycles: the second is as long as a scraper has to come by after the first.
const CYCLES: u64 = 2000;

fn get(address: &str, path: &str, accept: &str) -> (String, Vec<u8>) {
    let mut answer = Vec::new();
    // Of HTTP 1.0, since nothing is in chunks there.
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n");
    if let Ok(mut stream) = TcpStream::connect(address) {
        let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_end(&mut answer));
    }
    let end = answer.windows(4).position(|end| end == b"\r\n\r\n").map_or(answer.len(), |place| place + 4);
    let body = answer.split_off(end);
    (String::from_utf8(answer).unwrap(), body)
}

fn text(address: &str) -> String {
    String::from_utf8(get(address, "/metrics", "*/*").1).unwrap()
}

/// The value of the one sample of that name with these labels, in no other order.
fn value(text: &str, name: &str, labels: &str) -> Option<u64> {
    let sample = format!("{name}{{{labels}}} ");
    text.lines().find_map(|line| line.strip_prefix(&sample)).map(|value| value.parse().unwrap())
}

/// A monitor of `name` that serves; where.
fn serving(folder: &Path, name: &str, more: &[&str]) -> (Child, String) {
    let me = me(name);
    let args = [&["monitor", &me, "--prometheus", "127.0.0.1:0", "-o", "run", "--json", "run.json"], more];
    let mut child =
        command(folder, &args.concat()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut served = lines.filter_map(|line| Some(line.strip_prefix("serving http://")?.to_string()));
    let address = served.next().unwrap().trim_end_matches("/metrics").to_string();
    // A reader remains.
    std::thread::spawn(move || served.for_each(drop));
    (child, address)
}

#[test]
fn the_file_holds_at_last_what_the_bundle_holds() {
    let folder = folder();
    let _looping = Looping::start("filed", u64::MAX);
    let args = ["monitor", &me("filed"), "--loops", "400", "--prometheus", "loop.prom", "--json"];
    let document = isolator(folder.path(), &args).judged().json();
    let text = fs::read_to_string(folder.path().join("loop.prom")).unwrap();
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for row in rows {
        let labels = format!("loop=\"filed\",probe={},load=\"idle\",cpu=\"{}\"", row["probe"], row["cpu"]);
        let found = |name| value(&text, name, &labels);
        assert_eq!(found("isolator_latency_seconds_count"), Some(400), "{text}");
        assert_eq!(
            value(&text, "isolator_latency_seconds_bucket", &format!("{labels},le=\"+Inf\"")),
            Some(400)
        );
        assert_eq!(found("isolator_late_cycles_total"), row["late"].as_u64());
        let own = row["probe"] == "loop";
        assert_eq!(found("isolator_missed_periods_total"), own.then(|| row["missed"].as_u64().unwrap()));
        assert_eq!(found("isolator_lost_cycles_total").is_some(), own);
        // The sum too, which both have to the nanosecond.
        let sum = format!("isolator_latency_seconds_sum{{{labels}}} ");
        let sum_s: f64 = text.lines().find_map(|line| line.strip_prefix(&sum)).unwrap().parse().unwrap();
        assert!((sum_s / 400.0 * 1e9 / row["mean_ns"].as_f64().unwrap() - 1.0).abs() < 1e-6, "{sum_s} {row}");
    }
    assert!(text.contains("isolator_limit_seconds{loop=\"filed\",probe=\"loop\",load=\"idle\""), "{text}");
}

#[test]
fn a_scraper_gets_the_format_that_it_accepts() {
    let folder = folder();
    let _looping = Looping::start("negotiated", u64::MAX);
    let (mut child, address) = serving(folder.path(), "negotiated", &[]);
    wait_for("the first figures", || text(&address).contains("isolator_latency_seconds_count"));
    let (head, body) = get(&address, "/metrics", PROTOBUF);
    assert!(head.contains(&format!("\r\nContent-Type: {PROTOBUF}\r\n")), "{head}");
    // A family's length, and its first field: a name.
    assert!(String::from_utf8_lossy(&body).contains("\n\u{18}isolator_latency_seconds\u{12}"), "{body:?}");
    let (head, body) = get(&address, "/metrics", "text/html, */*;q=0.8");
    assert!(head.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{head}");
    assert!(body.starts_with(b"# HELP isolator_latency_seconds "));
    let (head, body) =
        get(&address, "/metrics", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
    let open = "\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
    assert!(head.contains(open), "{head}");
    assert!(body.ends_with(b"# EOF\n"), "{}", String::from_utf8_lossy(&body));
    assert!(get(&address, "/nothing", PROTOBUF).0.starts_with("HTTP/1.1 404 "));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert!(matches!(child.wait().unwrap().code(), Some(0 | 2)));
}

#[test]
fn figures_that_go_nowhere_are_refused_or_noted() {
    let folder = folder();
    let _looping = Looping::start("nowhere", u64::MAX);
    let monitor = |to: &str| {
        isolator(folder.path(), &["monitor", &me("nowhere"), "--loops", "10", "--prometheus", to, "--json"])
    };
    let line = monitor("missing/loop.prom").line();
    assert!(line.starts_with("cannot write missing/loop.prom: there is no folder missing"), "{line}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "no bundle was begun");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let line = monitor(&taken.local_addr().unwrap().to_string()).line();
    assert!(line.contains("address already in use; choose another address and port"), "{line}");
    fs::create_dir(folder.path().join("folder.prom")).unwrap();
    let line = monitor("folder.prom").line();
    assert!(line.starts_with("cannot write folder.prom: it is a folder; give the name of a file"), "{line}");
    // A name that no file can have is found when the file is written. The measurement goes on without.
    let notes = monitor(&"long".repeat(100)).judged().json()["notes"].to_string();
    assert!(notes.contains("figures for Prometheus are missing or old: cannot write longlong"), "{notes}");
}

/// A Prometheus of its own, and its address.
struct Prometheus(#[expect(dead_code)] Stranger, String);

impl Prometheus {
    fn start(program: &Path, folder: &Path, target: &str) -> Prometheus {
        // Where it is no longer an experiment a setting has taken the flag's place.
        let version = Command::new(program).arg("--version").output().unwrap();
        let said = String::from_utf8([version.stdout, version.stderr].concat()).unwrap();
        let mut numbers =
            said.split("version ").nth(1).unwrap().split(['.', ' ', ',']).map(str::parse::<u32>);
        let setting = match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (3, 8) => {
                "  scrape_native_histograms: true\n"
            }
            _ => "",
        };
        let config = format!(
            "global:\n  scrape_interval: 200ms\n  scrape_timeout: 200ms\n{setting}\
             scrape_configs:\n- job_name: isolator\n  static_configs:\n  - targets: ['{target}']\n"
        );
        fs::write(folder.join("prometheus.yml"), config).unwrap();
        // Free a moment ago; it takes no port 0 that it would tell.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let mut command = Command::new(program);
        command.args(["--config.file=prometheus.yml", "--storage.tsdb.path=store", "--log.level=warn"]);
        command.args(["--enable-feature=native-histograms", &format!("--web.listen-address={address}")]);
        command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Prometheus(Stranger(command.spawn().unwrap()), address)
    }

    /// The answer, by probe.
    fn ask(&self, query: &str) -> Vec<(String, f64)> {
        let hex = |byte: u8| format!("%{byte:02X}");
        let path = format!("/api/v1/query?query={}", query.bytes().map(hex).collect::<String>());
        let answer: Value = serde_json::from_slice(&get(&self.1, &path, "*/*").1).unwrap_or_default();
        let one = |one: &Value| {
            let value = one["value"][1].as_str()?.parse().ok()?;
            Some((one["metric"]["probe"].as_str()?.to_string(), value))
        };
        let mut all: Vec<_> =
            answer["data"]["result"].as_array().into_iter().flatten().filter_map(one).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

#[test]
fn a_real_prometheus_counts_what_the_bundle_counts() {
    let Some(program) = of_prometheus("prometheus") else {
        skipped(true, "it needs prometheus: apt-get install prometheus");
        return;
    };
    let folder = folder();
    let _looping = Looping::start("scraped", u64::MAX);
    let more = ["--loads", "idle,cpu", "--loops", &CYCLES.to_string()];
    let (mut child, address) = serving(folder.path(), "scraped", &more);
    let prometheus = Prometheus::start(&program, folder.path(), &address);
    let counts = "histogram_count(isolator_latency_seconds{load='idle'})";
    // The rows of the first load: they have ended, and are still told.
    let ended = ["execution", "loop", "mark-1"].map(|probe| (probe.to_string(), CYCLES as f64)).to_vec();
    wait_for("the first load's rows in Prometheus", || prometheus.ask(counts) == ended);
    let ask = |metric: &str| prometheus.ask(&format!("{metric}{{load='idle'}}"));
    let median = prometheus.ask("histogram_quantile(0.5, isolator_latency_seconds{load='idle'})");
    let late = ask("isolator_late_cycles_total");
    let missed = ask("isolator_missed_periods_total");
    assert_eq!(ask("isolator_latency_seconds_bucket"), [], "native histograms come without classic ones");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait().unwrap();

    let document = read(&folder.path().join("run.json"));
    let rows = document["rows"].as_array().unwrap().iter().filter(|row| row["load"] == "idle");
    let mut rows: Vec<_> = rows.map(|row| (row["probe"].as_str().unwrap().to_string(), row)).collect();
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    let of = |name: &str| -> Vec<(String, f64)> {
        rows.iter().map(|(probe, row)| (probe.clone(), row[name].as_f64().unwrap())).collect()
    };
    assert_eq!(of("count"), ended);
    assert_eq!(of("late"), late);
    assert_eq!(of("missed").into_iter().filter(|one| one.0 == "loop").collect::<Vec<_>>(), missed);
    // Both are of the same samples: a bucket's width of 2.2 % apart, and one of ours.
    for ((probe, median_s), (_, p50_ns)) in median.iter().zip(of("p50_ns")) {
        let ratio = median_s * 1e9 / p50_ns;
        let apart = (1.0f64 / 32.0).exp2() * (1.0 + 1.0 / 1024.0);
        assert!((1.0 / apart..apart).contains(&ratio), "{probe}: {median_s} s, {p50_ns} ns");
    }
    assert_eq!(median.len(), 3);
}
