// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints the inferred loop of each thread of the programs in `tests/programs`, and the due times of its
//! cycles, for `tools/proofs/models`, which compares them with another tool's: `models CYCLES`. `models
//! programs` builds all programs and prints their folder: a guest of the lab has no compiler.
//!
//! One line for each thread, with fields separated by tabs: program and style, thread number, thread name,
//! requested period in ns, wait, kind of release, period in ns, and the due times in ns.

use trace::model::{Model, Release};

#[path = "../tests/truth/mod.rs"]
#[allow(dead_code, reason = "the tests compare more")]
mod truth;

use truth::build::{program, steps};
use truth::{Case, Language, Watched, watch};

const STYLES: [(Language, &[&str]); 4] = [
    (
        Language::C,
        &["absolute", "realtime", "relative", "timerfd", "epoll", "poll", "select", "signal", "cond-timed"],
    ),
    (Language::C, &["deadline", "cond", "semaphore", "pipe", "eventfd", "udp", "chain"]),
    (Language::Cpp, &["sleep-until", "condition-until", "sleep-for"]),
    (Language::Rust, &["sleep", "condition", "channel"]),
];

const PERIOD_US: u64 = 2_000;

fn main() {
    let asked = std::env::args().nth(1);
    if asked.as_deref() == Some("programs") {
        return print_programs();
    }
    let cycles = asked.and_then(|word| word.parse().ok()).unwrap_or(500);
    for (language, styles) in STYLES {
        for style in styles {
            let case = Case { language, style, plant: None, period_us: PERIOD_US, cycles };
            match watch(&case) {
                Ok(threads) => threads.iter().for_each(|thread| print(&case, thread)),
                Err(why) => eprintln!("{language:?} {style}: skipped, {why}"),
            }
        }
    }
}

fn print_programs() {
    let languages = [Language::C, Language::Cpp, Language::Rust];
    for command in languages.map(program).into_iter().chain([true, false].map(steps)).flatten() {
        // A program that does not set real-time priority itself is the last argument of chrt.
        let file = command.get_args().last().unwrap_or(command.get_program());
        println!("{}", file.display());
    }
}

fn print(case: &Case, thread: &Watched) {
    let Some(model) = &thread.model else { return };
    let period_ns = model.period_ns.map_or("-".into(), |ns| ns.to_string());
    let due_ns: Vec<String> = thread.cycles.iter().map(|cycle| cycle.due_ns.to_string()).collect();
    println!(
        "{:?} {}\t{}\t{}\t{}\t{}\t{}\t{period_ns}\t{}",
        case.language,
        case.style,
        thread.truth.id,
        thread.truth.name,
        case.period_us * 1_000,
        model.wait,
        kind(model),
        due_ns.join(" ")
    );
}

fn kind(model: &Model) -> &'static str {
    match (&model.release, model.period_ns) {
        (Release::Timer { is_absolute: true }, _) => "periodic",
        (Release::Timer { is_absolute: false }, _) => "a time after its end",
        (Release::Event { .. }, Some(_)) => "triggered, periodic",
        (Release::Event { .. }, None) => "triggered",
    }
}
