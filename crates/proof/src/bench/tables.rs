// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of `docs/results/performance.md`, from the figures of one run; the words around them are
//! written by hand.

use std::fmt::Write;

use crate::bench::calls::Calls;
use crate::bench::day::Day;
use crate::bench::fleet;
use crate::bench::ground_truth::StallDetection;
use crate::bench::messages::{ContenderResult, LINES, OURS, PairResult, RAW};
use crate::bench::peers::{self, Instructions};

/// Everything that one run measured.
#[derive(Debug)]
pub struct PageFigures {
    /// Instructions of a sample, ours.
    pub ours: Instructions,
    /// Instructions of a sample, cyclictest's.
    pub cyclictest: Instructions,
    /// Nanoseconds of a spin iteration, ours.
    pub spin_ns: f64,
    /// Nanoseconds of an iteration of oslat.
    pub oslat_ns: f64,
    /// Nanoseconds of reading the counter alone.
    pub counter_ns: f64,
    /// The synthetic day.
    pub day: Day,
    /// Ground truth by probe.
    pub truth: Vec<(&'static str, StallDetection)>,
    /// Seconds of an audit (`isolator doctor`), the median of several.
    pub audit_s: f64,
    /// How many times as long a guest takes under the scope, or why that is not known.
    pub scope: Result<f64, String>,
}

/// A figure, what it should be, what was seen, and whether that is it.
fn row(out: &mut String, what: &str, aim: &str, seen: &str, reached: bool) {
    let mark = if reached { "reached" } else { "**not reached**" };
    let _ = writeln!(out, "| {what} | {aim} | {seen} | {mark} |");
}

/// The program itself.
pub fn program(figures: &PageFigures) -> String {
    let mut out = ROWS.to_string();
    let day = &figures.day;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let mut row =
        |what: &str, aim: &str, seen: String, reached: bool| row(&mut out, what, aim, &seen, reached);
    let ratio =
        |ours: f64, theirs: f64, unit: &str| format!("{ours:.0} / {theirs:.0} {unit} = {:.2}", ours / theirs);
    let (ours, theirs) = (figures.ours, figures.cyclictest);
    row(
        "user-space instructions of a wakeup sample, measuring thread / cyclictest's",
        "≤ 0.5",
        ratio(ours.thread, theirs.thread, "instructions"),
        ours.thread <= 0.5 * theirs.thread,
    );
    row(
        "an iteration of the spin loop / oslat's, medians of alternating runs",
        "≤ 0.5",
        format!(
            "{:.1} / {:.1} ns = {:.2}; reading the counter alone takes {:.1} ns",
            figures.spin_ns,
            figures.oslat_ns,
            figures.spin_ns / figures.oslat_ns,
            figures.counter_ns
        ),
        figures.spin_ns <= 0.5 * figures.oslat_ns,
    );
    let samples = day.samples as f64 / 1e9;
    row(
        &format!("24 h x 12 CPUs x 1 kHz ({samples:.2} billion samples): resident memory of the recorder"),
        "< 64 MB",
        format!("{:.1} MiB", mib(day.resident_bytes)),
        day.resident_bytes < 64_000_000,
    );
    row("its bundle", "< 20 MB", format!("{:.1} MiB", mib(day.bundle_bytes)), day.bundle_bytes < 20_000_000);
    row("reading it and making its report", "< 2 s", format!("{:.2} s", day.report_s), day.report_s < 2.0);
    row("the report", "< 2 MB", format!("{:.2} MiB", mib(day.report_bytes)), day.report_bytes < 2_000_000);
    row(
        "`isolator doctor`: reading the whole machine and all checks, median of 11 runs",
        "≤ 300 ms",
        format!("{:.0} ms", figures.audit_s * 1e3),
        figures.audit_s <= 0.3,
    );
    match &figures.scope {
        Ok(ratio) => row(
            "host CPU time of a guest under the lab's scope / without it",
            "≤ 3",
            format!("{ratio:.2}"),
            *ratio <= 3.0,
        ),
        Err(why) => {
            row("host CPU time of a guest under the lab's scope / without it", "≤ 3", why.clone(), false)
        }
    }
    let _ = writeln!(
        out,
        "\nThe measuring thread sends two times a sample and no more; all else is the control thread's, on a \
         housekeeping CPU: {:.0} instructions a sample over {} samples, with verdict, tail estimate and report.",
        ours.process,
        peers::LONG - peers::SHORT
    );
    let _ = writeln!(
        out,
        "\nRecording that day took {:.1} ns a sample, carrying over and writing included.\n",
        day.ns_per_sample
    );
    out.push_str(TRUTH);
    for (probe, outcome) in &figures.truth {
        let StallDetection { due, seen, clean, right, worst_beyond_ns, named, .. } = outcome;
        let StallDetection { explained, bystander, foreign, foreign_at_rest, .. } = outcome;
        let beyond = *worst_beyond_ns as f64 / 1e3;
        let _ = writeln!(
            out,
            "| {probe} | {due} | {seen} | {clean} | {right} | {beyond:.1} us | {named} | {bystander} of {explained} | \
             {foreign} | {foreign_at_rest} |"
        );
    }
    out
}

/// Below this round trip of bare words, the two CPUs are near: threads of a core, or cores of a cluster.
const NEAR_NS: f64 = 250.0;

fn named<'a>(of: &'a [ContenderResult], name: &str) -> Option<&'a ContenderResult> {
    of.iter().find(|it| it.name == name)
}

/// Messages between near CPUs and between far ones, as far as the machine has such: the places of their
/// tables in the page, and the tables.
pub fn messages(pairs: &[PairResult]) -> Vec<(&'static str, String)> {
    let is_near = |pair: &&PairResult| named(&pair.contenders, RAW).is_some_and(|raw| raw.p50_ns < NEAR_NS);
    let (near, far) = pairs.iter().partition::<Vec<_>, _>(is_near);
    let tables = [("messages, near CPUs", near), ("messages, far CPUs", far)].into_iter();
    let tables =
        tables.map(|(place, pairs)| (place, pairs.into_iter().map(messages_between).collect::<Vec<_>>()));
    tables.filter(|(_, of)| !of.is_empty()).map(|(place, of)| (place, of.join("\n"))).collect()
}

fn messages_between(PairResult { cpus: [first, second], is_fifo, contenders: shown }: &PairResult) -> String {
    let mut out = String::new();
    let sizes = shown.chunk_by(|one, other| one.bytes == other.bytes).collect::<Vec<_>>();
    let Some(raw) = named(shown, RAW) else { return out };
    let [low, high] = raw.between_ns;
    let _ = writeln!(
        out,
        "The CPUs {first} and {second} are {}: bare words took {:.0} ns there and back, {low:.0} to {high:.0} ns in nine of ten batches.{}\n",
        if raw.p50_ns < NEAR_NS { "near" } else { "far" },
        raw.p50_ns,
        if *is_fifo { "" } else { " The threads were not in real time." },
    );
    out.push_str(ROWS);
    let million = |it: &ContenderResult| it.per_s / 1e6;
    for of in &sizes {
        let (Some(raw), Some(ours)) = (named(of, RAW), named(of, OURS)) else { continue };
        let bytes = ours.bytes;
        let others = || of.iter().filter(|it| ![RAW, LINES, OURS].contains(&it.name.as_str()));
        if bytes == 56 {
            let lines = named(of, LINES).map(|lines| ("56 bytes in bare lines", lines));
            for (than, bare) in [("two bare words", raw)].into_iter().chain(lines) {
                let ratio = ours.p50_ns / bare.p50_ns;
                let seen = format!("{:.1} / {:.1} ns = {ratio:.2}", ours.p50_ns, bare.p50_ns);
                let what = format!("56 bytes, round trip / that of {than}, p50");
                row(&mut out, &what, "≤ 1.10", &seen, ratio <= 1.1);
            }
            let seen = format!("{:.1} million/s; bare words {:.1}", million(ours), million(raw));
            row(
                &mut out,
                "56 bytes, one way, where bare words come so fast",
                "≥ 20 million/s",
                &seen,
                ours.per_s >= 2e7,
            );
        }
        if let Some(best) = others().min_by(|one, other| one.p50_ns.total_cmp(&other.p50_ns)) {
            let ratio = ours.p50_ns / best.p50_ns;
            let seen = format!("{:.1} / {:.1} ns ({}) = {ratio:.2}", ours.p50_ns, best.p50_ns, best.name);
            let what = format!("{bytes} bytes, round trip / that of the quickest other ring, p50");
            row(&mut out, &what, "< 1", &seen, ratio < 1.0);
        }
        if let Some(best) = others().max_by(|one, other| one.per_s.total_cmp(&other.per_s)) {
            let ratio = ours.per_s / best.per_s;
            let seen =
                format!("{:.1} / {:.1} million/s ({}) = {ratio:.2}", million(ours), million(best), best.name);
            let what = format!("{bytes} bytes, one way / that of the quickest other ring");
            row(&mut out, &what, "> 1", &seen, ratio > 1.0);
        }
    }
    type Figure = fn(&ContenderResult) -> String;
    let figures: [(&str, Figure); 3] = [
        ("round trip, p50, ns", |it| format!("{:.1}", it.p50_ns)),
        ("round trip, p99.9, ns", |it| format!("{:.0}", it.p999_ns)),
        ("one way, million/s", |it| format!("{:.1}", it.per_s / 1e6)),
    ];
    for (what, figure) in figures {
        let _ = write!(out, "\n| {what} |");
        sizes.iter().for_each(|of| out.push_str(&format!(" {} B |", of[0].bytes)));
        let _ = write!(out, "\n|---|{}\n", "--:|".repeat(sizes.len()));
        // One size has all contenders.
        for one in sizes.iter().max_by_key(|of| of.len()).copied().unwrap_or_default() {
            let cell = |of: &&[ContenderResult]| named(of, &one.name).map_or("-".into(), figure);
            let _ = writeln!(
                out,
                "| {} | {} |",
                one.name,
                sizes.iter().map(cell).collect::<Vec<_>>().join(" | ")
            );
        }
    }
    out
}

/// The shortest calls, in C and in Rust.
pub fn calls(in_c: Calls, in_rust: Calls) -> String {
    let mut out = ROWS.to_string();
    for (what, aim_ns, c_ns, rust_ns) in [
        ("`isolator_session_pending()`", 2.0, in_c.pending_ns, in_rust.pending_ns),
        ("a cycle of the monitor: begin and end", 50.0, in_c.monitor_ns, in_rust.monitor_ns),
    ] {
        for (from, ns) in [("from C, a call of the shared library", c_ns), ("from Rust, in line", rust_ns)] {
            let aim = format!("≤ {aim_ns:.0} ns");
            row(&mut out, &format!("{what}, {from}"), &aim, &format!("{ns:.1} ns"), ns <= aim_ns);
        }
    }
    out
}

/// A made-up fleet, stored and reported.
pub fn fleet(figures: &fleet::FleetCost) -> String {
    let mut out = ROWS.to_string();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    for (what, aim_s, taken) in
        [("storing all bundles", 60.0, figures.store), ("the report", 10.0, figures.report)]
    {
        let seen = format!("{:.1} s", taken.seconds);
        row(&mut out, what, &format!("< {aim_s:.0} s"), &seen, taken.seconds < aim_s);
        let seen = format!("{:.0} MiB", mib(taken.resident_bytes));
        row(&mut out, "its memory, of the largest process", "< 1 GiB", &seen, taken.resident_bytes < 1 << 30);
    }
    let _ = writeln!(
        out,
        "\n{} machines of {} rows each, on {} CPUs; the bundles are {:.0} MiB, the store {:.0} MiB.",
        figures.machines,
        figures.rows,
        figures.cpus,
        mib(figures.bundle_bytes),
        mib(figures.store_bytes)
    );
    out
}

const ROWS: &str = "| figure | aim | seen | |\n|---|---|---|---|\n";

const TRUTH: &str = "### Ground truth

A SCHED_FIFO 99 thread stalls the measured CPU at random times for 50 us to 5 ms and times itself; *due* are the
stalls that the probe must see (the spin probe all, the wakeup probe those in which its timer was due for longer than
its threshold). *Clean* are those that were seen and in which the injector itself was left alone by the host; *right*
those of them whose reported length is within 5 % + 5 us of the injector's own. A SCHED_IDLE thread keeps the CPU from
halting, since what a host takes to wake a halted CPU would be a spike that was not injected.
*Right cause* are the clean ones whose longest cause is the injector. Bystanders spin, wake each other, move and start
programs meanwhile: no spike may name one, except in a function of the kernel.
Spikes without a stall come from the machine: the last column counts those of an equally long run without injection.

| probe | due | seen | clean | right | worst beyond the allowance | right cause | a bystander named | spikes without a stall | at rest |
|---|---|---|---|---|---|---|---|---|---|
";
