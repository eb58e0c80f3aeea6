// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints, for each program that writes down its own truth, how far the kernel's records agree with it:
//! `agreement [CYCLES [plants]]`; with `plants` only programs in which something goes wrong.
//!
//! One row for each thread that stamps its cycles. Begins are later, and executions longer, by the program's
//! clock readings against the kernel's records, cycle by cycle; a share is of the cycles that agree within 10
//! us or 2 %. Not compared are cycles that were due before the one before them ended: they need not wait.

use trace::model::{Model, Release};

#[path = "../tests/truth/mod.rs"]
#[allow(dead_code, reason = "the tests compare more")]
mod truth;

use truth::{Blamed, Case, Language, Watched, share, watch};

const STYLES: [(Language, &[&str]); 4] = [
    (
        Language::C,
        &[
            "absolute",
            "realtime",
            "relative",
            "timerfd",
            "epoll",
            "signal",
            "cond-timed",
            "poll",
            "ppoll",
            "select",
            "deadline",
            "cond",
            "semaphore",
            "pipe",
            "eventfd",
            "udp",
            "chain",
        ],
    ),
    (Language::Cpp, &["sleep-until", "condition-until", "sleep-for"]),
    (Language::Rust, &["sleep", "condition", "channel"]),
    (Language::Python, &["sleep", "event", "sleep-until"]),
];

const PLANTS: [&str; 6] = ["lock", "pi-lock", "fault", "preempt", "pipe", "overrun"];

const PERIOD_US: u64 = 2_000;

fn main() {
    let cycles = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1_000);
    println!(
        "| program | style | waits with | period, us: asked, found | cycles: own, found | due within 1 us | begin later, us: median, p99 | execution longer, us: median | execution agrees | response agrees | planted, found | of these, causes right: kind, owner, functions, sum |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    let only_plants = std::env::args().nth(2).is_some_and(|word| word == "plants");
    for (language, styles) in STYLES.into_iter().filter(|_| !only_plants) {
        for style in styles {
            print(&Case { language, style, plant: None, period_us: PERIOD_US, cycles });
        }
    }
    for plant in PLANTS {
        for style in ["absolute", "timerfd", "eventfd"] {
            let case =
                Case { language: Language::C, style, plant: Some(plant), period_us: PERIOD_US, cycles };
            print(&case);
        }
    }
}

fn print(case: &Case) {
    match watch(case) {
        Ok(threads) => threads.iter().for_each(|thread| row(case, thread)),
        Err(why) => println!("| {:?} | {} | skipped: {why} | | | | | | | | | |", case.language, case.style),
    }
}

fn row(case: &Case, thread: &Watched) {
    let style = match case.plant {
        Some(plant) => format!("{}, {plant}", case.style),
        None => case.style.to_string(),
    };
    let model = thread.model.as_ref();
    let waits = model.map_or("no loop".into(), |model| format!("{}: {}", model.wait, released(model)));
    let period = model.and_then(period_us).map_or("none".into(), |us| format!("{us:.1}"));
    let mut later: Vec<u64> =
        thread.both_begun().map(|(own, found)| own.begin_ns.saturating_sub(found.began_ns)).collect();
    later.sort_unstable();
    let mut longer: Vec<u64> =
        thread.both_begun().map(|(own, found)| found.execution_ns.saturating_sub(own.cpu_ns)).collect();
    longer.sort_unstable();
    let at = |hundredth: usize| {
        later.get((later.len() * hundredth / 100).min(later.len().saturating_sub(1))).map_or(0.0, us)
    };
    println!(
        "| {:?} {} | {style} | {waits} | {}, {period} | {}, {} ({}) | {} | {:.1}, {:.1} | {:.1} | {} | {} | {} | {} |",
        case.language,
        thread.truth.name,
        case.period_us,
        thread.expected.len(),
        thread.pairs.len(),
        percent(thread.found()),
        match model.map(|model| &model.release) {
            Some(Release::Timer { .. }) => thread.due_exact().map_or("-".into(), percent),
            _ => "-".into(),
        },
        at(50),
        at(99),
        longer.get(longer.len() / 2).map_or(0.0, us),
        percent(agreeing(thread, |own, found| (own.cpu_ns, found.execution_ns))),
        percent(agreeing(thread, |own, found| {
            let from = |due: u64, begin: u64| if own.due_ns.is_some() { due } else { begin };
            (
                own.end_ns - from(own.due_ns.unwrap_or(0), own.begin_ns),
                found.ended_ns - from(found.due_ns, found.began_ns),
            )
        })),
        match case.plant {
            Some(_) => format!("{0}, {1}", thread.planted_and_found().0, thread.planted_and_found().1),
            None => "-".into(),
        },
        case.plant.map_or("-".into(), |_| {
            let Blamed { cause, owner, function, whole, .. } = thread.blamed();
            format!("{cause}, {owner}, {function}, {whole}")
        }),
    );
}

fn released(model: &Model) -> String {
    match &model.release {
        Release::Timer { is_absolute: true } => "timer, on a grid".into(),
        Release::Timer { is_absolute: false } => "timer, after its end".into(),
        Release::Event { waker } => format!("by {}", waker.as_deref().unwrap_or("interrupts")),
    }
}

fn us(ns: &u64) -> f64 {
    *ns as f64 / 1e3
}

fn period_us(model: &Model) -> Option<f64> {
    model.period_ns.as_ref().map(us)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn agreeing(
    thread: &Watched,
    times: impl Fn(&truth::TrueCycle, &trace::cycle::LoopCycle) -> (u64, u64),
) -> f64 {
    let agrees = |(own, found): (&truth::TrueCycle, &trace::cycle::LoopCycle)| {
        let (own, found) = times(own, found);
        own.abs_diff(found) <= (own / 50).max(10_000)
    };
    let both = thread.both_begun().filter(|(own, found)| agrees((own, found)));
    share(both.count(), thread.both_begun().count())
}
