// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run, or a watch, as a page of HTTP while it goes on (`--live`): one document, its figures as JSON
//! twice a second, and a request that ends it in order.
//!
//! The thread that serves stays on the house-keeping CPUs. Without a page nothing here exists; with one and
//! no browser, the figures are put together four times a second by the thread that carries samples anyway.
//!
//! The address of the page has a number that cannot be guessed, and each request must have it:
//! other users of the machine and foreign sites, which were not shown the address, neither read nor end the
//! run.

use std::collections::VecDeque;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cause::rates::WatchDocument;
use evidence::Result;
use evidence::cause::Cause;
use evidence::document::ProveDocument;
use evidence::histogram::Histogram;
use machine::quantity::{Say, Sign};
use measure::series::{RowProgress, SeriesProgress};
use report::watch::SourceLine;
use serde::Serialize;

use super::picture::{Overall, PictureRow, RowState};
use crate::output::note;
use crate::serve::serve_on;

/// The document; `@STATE@` becomes the first figures.
const DOCUMENT: &str = include_str!("page.html");

/// Points of a time series: beyond that two neighbours become one.
const POINTS: usize = 1200;

/// Spikes that are listed, the latest.
const SPIKES: usize = 50;

/// Causes of a spike that are listed, the longest.
const CAUSES: usize = 4;

/// Bars of a histogram to an octave.
const BARS: f64 = 8.0;

/// A browser that asked within this time is looking.
const LOOKS: Duration = Duration::from_secs(2);

/// One that looks is given this long to fetch the results.
const FETCHES: Duration = Duration::from_secs(3);

/// The page of a run.
#[derive(Clone)]
pub struct LivePage {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<PageState>,
    stop: Arc<AtomicBool>,
    /// When a browser last asked for the figures, and whether it has had the results.
    asked: Mutex<(Option<Instant>, bool)>,
}

/// The state that the page draws.
#[derive(Debug, Default, Serialize)]
struct PageState {
    title: String,
    elapsed_s: f64,
    left_s: Option<f64>,
    is_stopping: bool,
    ended: Option<Results>,
    rows: Vec<PageRow>,
    series: Vec<PageSeries>,
    spikes: VecDeque<PageSpike>,
    watch: Option<PageWatch>,
}

#[derive(Debug, Clone, Serialize)]
struct Results {
    held: bool,
    text: String,
    /// The parts of the verdict, where there is one.
    lines: Vec<String>,
}

#[derive(Debug, Serialize)]
struct PageRow {
    name: String,
    state: String,
    samples: Option<u64>,
    missed: Option<u64>,
    max_ns: Option<u64>,
    is_late: bool,
}

#[derive(Debug, Serialize)]
struct PageSeries {
    name: String,
    limit_ns: u64,
    count: u64,
    min_ns: u64,
    mean_ns: u64,
    max_ns: u64,
    last_ns: u64,
    missed: u64,
    /// From, to, and number of samples.
    histogram: Vec<(u64, u64, u64)>,
    /// Seconds since the row began, maximum and mean of the interval that ends there.
    points: Vec<(f64, u64, u64)>,
    #[serde(skip)]
    before: Arc<Histogram>,
}

/// The interrupts of the watched CPUs.
#[derive(Debug, Default, Serialize)]
struct PageWatch {
    head: String,
    cpus: Vec<u32>,
    /// Interrupts per second of each CPU.
    interrupts: Vec<f64>,
    sources: Vec<PageSource>,
    /// Seconds since the watch began, interrupts in a thousand seconds of the busiest CPU, and of each in the
    /// mean.
    points: Vec<(f64, u64, u64)>,
    senders: Option<Vec<String>>,
    could_not_see: Vec<String>,
}

#[derive(Debug, Serialize)]
struct PageSource {
    name: String,
    total: u64,
    per_second: f64,
    /// For each CPU.
    rates: Vec<f64>,
}

#[derive(Debug, Serialize)]
struct PageSpike {
    at_s: f64,
    series: String,
    latency_ns: u64,
    causes: Vec<String>,
}

impl LivePage {
    /// Serves the page of a run called `title` on `address`, by a thread that stays on the CPUs of this one.
    /// Its button sets `stop`.
    pub fn serve(address: SocketAddr, title: String, stop: Arc<AtomicBool>) -> Result<LivePage> {
        let state = Mutex::new(PageState { title, ..PageState::default() });
        let page = LivePage { shared: Arc::new(Shared { state, stop, asked: Mutex::default() }) };
        let token = random().map_err(|error| {
            let why = format!("/dev/urandom cannot be read: {}", error::reason(&error));
            evidence::Error::on("serve on", address, why, "leave out --live, or mount /dev")
        })?;
        let (answering, number) = (page.clone(), token.clone());
        let at = serve_on(address, "live", move |head| answering.answer(head, &number))?;
        note(&format!("live page: http://{at}/{token}/"));
        Ok(page)
    }

    /// The run stands so; `progress` is of the present row.
    pub fn show(&self, rows: &[PictureRow], overall: Overall, progress: Option<&RowProgress>) {
        let mut state = self.state();
        state.elapsed_s = overall.elapsed.as_secs_f64();
        state.left_s = overall.left.map(|left| left.as_secs_f64());
        state.is_stopping = self.shared.stop.load(Ordering::SeqCst);
        state.rows = rows.iter().map(page_row).collect();
        if let Some(progress) = progress.filter(|progress| !progress.elapsed.is_zero()) {
            state.take(progress);
        }
    }

    /// A watch stands so.
    pub fn watches(&self, document: &WatchDocument, elapsed: Duration, left: Option<Duration>) {
        let mut state = self.state();
        state.elapsed_s = elapsed.as_secs_f64();
        state.left_s = left.map(|left| left.as_secs_f64());
        state.is_stopping = self.shared.stop.load(Ordering::SeqCst);
        state.watch.get_or_insert_default().take(document, elapsed);
    }

    /// The run has ended with this document, whose report lies at `report`.
    pub fn judged(&self, document: &ProveDocument, report: &Path) {
        let text = format!("{}; report: {}", report::outcome(document), report.display());
        let lines = document.parts().lines();
        let lines = lines.iter().map(|line| line.page().to_string()).collect();
        self.end_with(Results { held: document.verdict.held, text, lines });
    }

    /// A watch has ended.
    pub fn end(&self, text: String) {
        self.end_with(Results { held: true, text, lines: Vec::new() });
    }

    /// A browser that looks is given time to fetch the results.
    fn end_with(&self, results: Results) {
        {
            let mut state = self.state();
            state.left_s = None;
            state.ended = Some(results);
        }
        let asked = || *self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let began = Instant::now();
        let looks = asked().0.is_some_and(|asked| asked.elapsed() < LOOKS);
        while looks && !asked().1 && began.elapsed() < FETCHES {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn state(&self) -> MutexGuard<'_, PageState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, head: &str, token: &str) -> Vec<u8> {
        let mut words = head.lines().next().unwrap_or_default().split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let page = target.strip_prefix('/').and_then(|rest| rest.strip_prefix(token)?.strip_prefix('/'));
        let Some(page) = page else {
            return said("403 Forbidden", "the page is at the address that the run shows its owner\n");
        };
        match (method, page) {
            ("GET", "") => {
                // Within a script only `<` could end it.
                let first = self.figures().0.replace('<', "\\u003c");
                whole("200 OK", "text/html; charset=utf-8", &DOCUMENT.replace("@STATE@", &first))
            }
            ("GET", "state.json") => {
                let (figures, has_results) = self.figures();
                *self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner) =
                    (Some(Instant::now()), has_results);
                whole("200 OK", "application/json", &figures)
            }
            ("POST", "stop") => {
                self.shared.stop.store(true, Ordering::SeqCst);
                said("200 OK", "the run ends\n")
            }
            ("GET" | "POST", _) => said("404 Not Found", "the page has no such part\n"),
            _ => said("400 Bad Request", "only GET and POST are understood\n"),
        }
    }

    /// The figures as JSON, and whether they have the results.
    fn figures(&self) -> (String, bool) {
        let state = self.state();
        (serde_json::to_string(&*state).unwrap_or_default(), state.ended.is_some())
    }
}

impl PageState {
    fn take(&mut self, progress: &RowProgress) {
        let at_s = progress.elapsed.as_secs_f64();
        let names = progress.series.iter().map(shown);
        if !names.eq(self.series.iter().map(|known| known.name.clone())) {
            self.series = progress.series.iter().map(PageSeries::of).collect();
        }
        for (known, now) in self.series.iter_mut().zip(&progress.series) {
            known.take(now, at_s);
            if let Some(spike) = &now.spike {
                self.spikes.push_front(PageSpike {
                    at_s: spike.at_ns as f64 / 1e9,
                    series: known.name.clone(),
                    latency_ns: spike.latency_ns,
                    causes: longest(&spike.causes),
                });
            }
        }
        self.spikes.truncate(SPIKES);
    }
}

impl PageSeries {
    fn of(series: &SeriesProgress) -> PageSeries {
        PageSeries {
            name: shown(series),
            limit_ns: series.limit_ns,
            count: 0,
            min_ns: 0,
            mean_ns: 0,
            max_ns: 0,
            last_ns: 0,
            missed: 0,
            histogram: Vec::new(),
            points: Vec::new(),
            before: Arc::default(),
        }
    }

    fn take(&mut self, now: &SeriesProgress, at_s: f64) {
        let seen = &now.so_far;
        (self.last_ns, self.missed, self.max_ns) = (now.last_ns, seen.missed, seen.max_ns);
        (self.count, self.min_ns) = (seen.count, if seen.count == 0 { 0 } else { seen.min_ns });
        self.mean_ns = seen.sum_ns.checked_div(seen.count).unwrap_or(0);
        let Some(latency) = &now.latency else { return };
        let (mut count, mut sum_ns, mut max_ns) = (0, 0, 0);
        for bucket in latency.buckets() {
            let new = bucket.count.saturating_sub(self.before.count_at(bucket.index));
            if new > 0 {
                count += new;
                sum_ns += u128::from(new) * u128::from(bucket.from_ns.midpoint(bucket.to_ns));
                max_ns = bucket.to_ns;
            }
        }
        if count > 0 {
            let mean_ns = u64::try_from(sum_ns / u128::from(count)).unwrap_or(u64::MAX);
            self.points.push((at_s, max_ns, mean_ns));
            if self.points.len() > POINTS {
                self.points = halved(&self.points);
            }
        }
        self.histogram = bars(latency);
        self.before = Arc::clone(latency);
    }
}

impl PageWatch {
    fn take(&mut self, document: &WatchDocument, elapsed: Duration) {
        self.head = report::watch::head(document);
        self.cpus = document.cpus.iter().collect();
        self.interrupts = report::watch::interrupts(document).into_values().collect();
        let source = |line: SourceLine| PageSource {
            rates: self.cpus.iter().map(|cpu| line.on(*cpu)).collect(),
            name: line.name,
            total: line.total,
            per_second: line.per_second,
        };
        self.sources = report::watch::sources(document).into_iter().map(source).collect();
        let senders = document.senders.as_ref();
        self.senders = senders.map(|senders| senders.iter().map(report::watch::sender).collect());
        self.could_not_see.clone_from(&document.could_not_see);
        let most = self.interrupts.iter().copied().fold(0.0, f64::max);
        let mean = self.interrupts.iter().sum::<f64>() / self.interrupts.len().max(1) as f64;
        self.points.push((elapsed.as_secs_f64(), (most * 1e3) as u64, (mean * 1e3) as u64));
        if self.points.len() > POINTS {
            self.points = halved(&self.points);
        }
    }
}

/// Neighbours as one: the later time, the larger maximum, the middle of the means.
fn halved(points: &[(f64, u64, u64)]) -> Vec<(f64, u64, u64)> {
    let one = |pair: &[(f64, u64, u64)]| match *pair {
        [a, b, ..] => (b.0, a.1.max(b.1), a.2.midpoint(b.2)),
        [a] => a,
        [] => (0.0, 0, 0),
    };
    points.chunks(2).map(one).collect()
}

/// A histogram's buckets, joined to few enough for a picture.
fn bars(latency: &Histogram) -> Vec<(u64, u64, u64)> {
    let mut bars: Vec<(u64, u64, u64)> = Vec::new();
    let bar = |ns: u64| ((ns.max(1) as f64).log2() * BARS) as u64;
    for bucket in latency.buckets() {
        match bars.last_mut().filter(|last| bar(last.0) == bar(bucket.from_ns)) {
            Some(last) => *last = (last.0, bucket.to_ns, last.2 + bucket.count),
            None => bars.push((bucket.from_ns, bucket.to_ns, bucket.count)),
        }
    }
    bars
}

/// A series' name, with its period as figures of the page are written.
fn shown(series: &SeriesProgress) -> String {
    series.key.write(Sign::Page)
}

/// The causes that took longest.
fn longest(causes: &[Cause]) -> Vec<String> {
    let mut causes = causes.iter().collect::<Vec<_>>();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.duration_ns));
    causes.iter().take(CAUSES).map(|cause| report::brief(cause)).collect()
}

fn page_row(row: &PictureRow) -> PageRow {
    let (state, figures) = match &row.state {
        RowState::Waits => ("waits".to_string(), None),
        RowState::Says(text) => (text.clone(), None),
        RowState::Measures(figures, Some(part)) => (format!("{:.0} %", part.min(1.0) * 100.0), Some(figures)),
        RowState::Measures(figures, None) => ("measures".to_string(), Some(figures)),
        RowState::Ended(figures) => ("ended".to_string(), Some(figures)),
    };
    PageRow {
        name: row.name.clone(),
        state,
        samples: figures.map(|figures| figures.samples),
        missed: figures.map(|figures| figures.missed),
        max_ns: figures.map(|figures| figures.max_ns),
        is_late: figures.is_some_and(|figures| figures.late),
    }
}

/// A number that cannot be guessed.
fn random() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    untrusted::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.map(|byte| format!("{byte:02x}")).concat())
}

fn said(status: &str, text: &str) -> Vec<u8> {
    whole(status, "text/plain; charset=utf-8", text)
}

fn whole(status: &str, kind: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
         connect-src 'self'; frame-ancestors 'none'\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::manifest::{RowKey, Second};

    fn page() -> LivePage {
        let shared = Shared { state: Mutex::default(), stop: Arc::default(), asked: Mutex::default() };
        LivePage { shared: Arc::new(shared) }
    }

    fn answered(page: &LivePage, request: &str) -> String {
        String::from_utf8(page.answer(&format!("{request} HTTP/1.1\r\n\r\n"), "42")).unwrap()
    }

    #[test]
    fn a_request_without_the_number_reads_and_ends_nothing() {
        let page = page();
        let targets = ["/", "", "*", "/?token=42", "/41/", "/4", "/42", "/421/", "//42/", "/x/42/", "42/"];
        let parts = ["", "state.json", "stop", "stop?token=42"];
        for method in ["GET", "POST", "HEAD", "PUT"] {
            for (target, part) in targets.iter().flat_map(|target| parts.map(|part| (target, part))) {
                let answer = answered(&page, &format!("{method} {target}{part}"));
                assert!(answer.starts_with("HTTP/1.1 403 "), "{method} {target}{part}: {answer}");
                assert!(!answer.contains("rows") && !answer.contains("42"), "{answer}");
            }
        }
        assert!(!page.shared.stop.load(Ordering::SeqCst));
    }

    #[test]
    fn only_a_post_with_the_number_stops_the_run() {
        let page = page();
        for (request, status) in
            [("GET /42/stop", "404"), ("PUT /42/stop", "400"), ("POST /42/", "404"), ("GET /42/", "200")]
        {
            let answer = answered(&page, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
            // A page that is saved or sent on gives nothing away.
            assert!(!answer.contains("'42'") && !page.shared.stop.load(Ordering::SeqCst), "{request}");
        }
        assert!(answered(&page, "POST /42/stop").starts_with("HTTP/1.1 200 "));
        assert!(page.shared.stop.load(Ordering::SeqCst));
    }

    fn series(values_ns: &[u64]) -> SeriesProgress {
        let mut latency = Histogram::new();
        values_ns.iter().for_each(|ns| latency.record(*ns));
        let key = RowKey {
            probe: "wakeup".into(),
            load: "idle".into(),
            cpu: 1,
            period_ns: Some(1_000_000),
            thread_name: None,
        };
        let so_far = Second {
            second: 0,
            count: latency.count(),
            min_ns: latency.min_ns(),
            sum_ns: values_ns.iter().sum(),
            max_ns: latency.max_ns(),
            missed: 0,
        };
        SeriesProgress {
            key,
            thread: 1,
            priority: 80,
            so_far,
            last_ns: values_ns.last().copied().unwrap_or(0),
            limit_ns: 100_000,
            lost: 0,
            latency: Some(Arc::new(latency)),
            spike: None,
        }
    }

    #[test]
    fn a_point_is_of_its_interval_alone() {
        let mut one = PageSeries::of(&series(&[]));
        one.take(&series(&[10_000, 90_000]), 0.25);
        one.take(&series(&[10_000, 90_000, 20_000, 30_000]), 0.5);
        // Nothing came.
        one.take(&series(&[10_000, 90_000, 20_000, 30_000]), 0.75);
        let [first, second] = one.points[..] else { panic!("{:?}", one.points) };
        // A bucket is narrower than 1/1024 of its values.
        let is = |seen: u64, truth: u64| seen.abs_diff(truth) <= truth / 1024;
        assert!(first.0 == 0.25 && is(first.1, 90_000) && is(first.2, 50_000), "{first:?}");
        assert!(second.0 == 0.5 && is(second.1, 30_000) && is(second.2, 25_000), "{second:?}");
        assert_eq!(one.histogram.iter().map(|bar| bar.2).sum::<u64>(), 4);
    }

    #[test]
    fn a_long_run_keeps_its_maxima() {
        let mut one = PageSeries::of(&series(&[]));
        let mut values = Vec::new();
        for n in 0..3 * POINTS {
            values.push(if n == POINTS { 900_000 } else { 10_000 });
            one.take(&series(&values), n as f64);
        }
        assert!(
            one.points.len() <= POINTS && one.points.iter().filter(|point| point.1 >= 900_000).count() == 1
        );
    }
}
