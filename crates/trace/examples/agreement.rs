// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints, for each program that stamps its own cycles, how well the kernel's records agree with the stamps:
//! `agreement [CYCLES [plants|parts]]`; with `plants` only programs with provoked events.
//!
//! With `parts`, for `make proof-agreement`: the number of cycles that agree, and the position of the extra
//! time in the kernel's records. A program stamps after its wait returned and before it waits again. Before
//! the first stamp come the rest of the context switch and the return from the call; after the last one come
//! the call's entry, arming the timer, and the next context switch.
//!
//! One row for each thread that stamps its cycles. Begins are later, and executions longer, by the program's
//! clock readings than by the kernel's records; a share is of the cycles that agree within 10 us or 2 %.
//! Cycles that were due before the previous one ended are not compared: they need not wait.

use trace::cycle::LoopCycle;
use trace::model::{Model, Release};

#[path = "../tests/truth/mod.rs"]
#[allow(dead_code, reason = "the tests compare more")]
mod truth;

use truth::{Blamed, Case, Language, TrueCycle, Truth, Watched, alone, share, watch};

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
    match std::env::args().nth(2).as_deref() {
        Some("parts") => parts(cycles),
        Some("plants") => whole(cycles, false),
        _ => whole(cycles, true),
    }
}

/// Programs without provoked events.
fn undisturbed(cycles: u64) -> impl Iterator<Item = Case> {
    let case = move |language, style| Case { language, style, plant: None, period_us: PERIOD_US, cycles };
    STYLES
        .into_iter()
        .flat_map(move |(language, styles)| styles.iter().map(move |style| case(language, style)))
}

fn whole(cycles: u64, has_undisturbed: bool) {
    println!(
        "| program | style | waits with | period, us: asked, found | cycles: own, found | due within 1 us | begin later, us: median, p99 | execution longer, us: median | execution agrees | response agrees | planted, found | of these, causes right: kind, owner, functions, sum |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    undisturbed(cycles).filter(|_| has_undisturbed).for_each(|case| print(&case));
    for plant in PLANTS {
        for style in ["absolute", "timerfd", "eventfd"] {
            let case =
                Case { language: Language::C, style, plant: Some(plant), period_us: PERIOD_US, cycles };
            print(&case);
        }
    }
}

fn parts(cycles: u64) {
    println!(
        "| program, thread | cycles | wakeup agrees | execution | response | before the first stamp, us: median, p99 | after the last one | execution longer: median | own wakeup latency, us: alone, followed |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    // An interpreter's stamps are far from its waits.
    for case in undisturbed(cycles).filter(|case| case.language != Language::Python) {
        match alone(&case).and_then(|alone| Ok((alone, watch(&case)?))) {
            Ok((alone, threads)) => {
                let both = alone.iter().zip(&threads);
                both.for_each(|(alone, thread)| row_of_parts(&case, alone, thread));
            }
            Err(why) => println!("| {:?} {} | skipped: {why} | | | | | | | |", case.language, case.style),
        }
    }
}

/// The median delay of a thread's begin by its own clock readings.
fn own_wakeup(truth: &Truth) -> String {
    let late = |cycle: &TrueCycle| cycle.due_ns.map(|due_ns| cycle.begin_ns.saturating_sub(due_ns));
    let mut values: Vec<u64> = truth.cycles.iter().filter_map(late).collect();
    values.sort_unstable();
    values.get(values.len() / 2).map_or("-".into(), |ns| format!("{:.1}", us(ns)))
}

fn row_of_parts(case: &Case, alone: &Truth, thread: &Watched) {
    let of = |part: &dyn Fn(&TrueCycle, &LoopCycle) -> u64| {
        let mut values: Vec<u64> = thread.both_begun().map(|(own, found)| part(own, found)).collect();
        values.sort_unstable();
        values
    };
    let at = |values: &[u64], share: usize| {
        values.get((values.len() * share / 100).min(values.len().saturating_sub(1))).map_or(0.0, us)
    };
    let before = of(&|own, found| own.begin_ns.saturating_sub(found.began_ns));
    let after = of(&|own, found| found.ended_ns.saturating_sub(own.end_ns));
    let longer = of(&|own, found| found.execution_ns.saturating_sub(own.cpu_ns));
    println!(
        "| {:?} {}, {} | {} | {} | {} | {} | {:.1}, {:.1} | {:.1}, {:.1} | {:.1} | {}, {} |",
        case.language,
        case.style,
        thread.truth.name,
        before.len(),
        percent(agreeing(thread, |own, found| {
            // If the program does not know its due time, use the kernel's for both.
            let due_ns = own.due_ns.unwrap_or(found.due_ns);
            (own.begin_ns.saturating_sub(due_ns), found.began_ns.saturating_sub(due_ns))
        })),
        percent(agreeing(thread, execution)),
        percent(agreeing(thread, response)),
        at(&before, 50),
        at(&before, 99),
        at(&after, 50),
        at(&after, 99),
        at(&longer, 50),
        own_wakeup(alone),
        own_wakeup(&thread.truth),
    );
}

fn execution(own: &TrueCycle, found: &LoopCycle) -> (u64, u64) {
    (own.cpu_ns, found.execution_ns)
}

fn response(own: &TrueCycle, found: &LoopCycle) -> (u64, u64) {
    let from = |due: u64, begin: u64| if own.due_ns.is_some() { due } else { begin };
    (
        own.end_ns - from(own.due_ns.unwrap_or(0), own.begin_ns),
        found.ended_ns - from(found.due_ns, found.began_ns),
    )
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
        percent(agreeing(thread, execution)),
        percent(agreeing(thread, response)),
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

fn agreeing(thread: &Watched, times: impl Fn(&TrueCycle, &LoopCycle) -> (u64, u64)) -> f64 {
    let agrees = |(own, found): (&TrueCycle, &LoopCycle)| {
        let (own, found) = times(own, found);
        own.abs_diff(found) <= (own / 50).max(10_000)
    };
    let both = thread.both_begun().filter(|(own, found)| agrees((own, found)));
    share(both.count(), thread.both_begun().count())
}
