// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table for people: what it says, and that it fits.

mod common;

use common::Plan;
use evidence::document::ProveDocument;
use report::terminal::{Style, table};

const PLAIN: Style = Style { color: false, width: 120 };

fn stock() -> ProveDocument {
    ProveDocument::of(&Plan::before().in_memory())
}

#[test]
fn a_line_a_row_and_the_verdict_last() {
    let document = stock();
    let text = table(&document, PLAIN);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("probe"), "{}", lines[0]);
    let rows = lines.iter().filter(|line| line.ends_with(" ok") || line.ends_with(" LATE"));
    assert_eq!(rows.count(), document.rows.len());
    assert_eq!(*lines.last().unwrap(), "==> DOES NOT HOLD 100 us");
}

#[test]
fn the_verdict_says_held_and_unproven_too() {
    let held = ProveDocument::of(&Plan::after().in_memory());
    assert!(table(&held, PLAIN).ends_with("==> HOLDS 100 us\n"));
    let tainted = ProveDocument::of(&Plan { tainted: true, ..Plan::after() }.in_memory());
    let text = table(&tainted, PLAIN);
    assert!(text.ends_with("==> UNPROVEN: 100 us was kept, but that is not proven\n"), "{text}");
}

#[test]
fn what_was_not_run_what_taints_and_what_is_missing_is_said() {
    let mut document = stock();
    document.missing.push("spikes.jsonl is missing".into());
    let text = table(&document, PLAIN);
    for line in [
        "wakeup under gpu not run: package glmark2 missing; apt-get install glmark2",
        "taint: not-real-time-kernel (accepted): the kernel is not PREEMPT_RT; boot a PREEMPT_RT kernel",
        "taint: steal under io on cpu 2: the hypervisor took 3 ms from the CPU",
        "note: cpu_dma_latency was held at 0 us while measuring and let go afterwards",
        "missing: spikes.jsonl is missing",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert_eq!(text.matches("the hypervisor took 3 ms").count(), 1, "said once\n{text}");
}

#[test]
fn a_narrow_terminal_gets_fewer_columns_and_no_wrapped_row() {
    for width in [40, 60, 80, 100, 132] {
        let text = table(&stock(), Style { color: false, width });
        for line in text.lines().filter(|line| !line.starts_with("- ")) {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
        let head = text.lines().next().unwrap();
        assert!(["load", "cpu", "max"].iter().all(|column| head.contains(column)), "{width}: {head}");
        assert_eq!(head.contains("mean"), width >= 80, "{width}: {head}");
    }
}

#[test]
fn colour_only_adds_to_words() {
    let coloured = table(&stock(), Style { color: true, width: 80 });
    let plain = table(&stock(), Style { color: false, width: 80 });
    let mut stripped = String::new();
    for part in coloured.split('\u{1b}') {
        stripped.push_str(
            part.split_once('m').map_or(part, |(code, rest)| if code.starts_with('[') { rest } else { part }),
        );
    }
    let trimmed = |text: &str| text.lines().map(|line| line.trim_end().to_string()).collect::<Vec<_>>();
    assert!(coloured.contains('\u{1b}') && !plain.contains('\u{1b}'));
    assert_eq!(trimmed(&stripped), trimmed(&plain));
}

#[test]
fn foreign_text_cannot_steer_the_terminal() {
    let mut document = stock();
    document.rows[0].key.load = "custom=\u{1b}[2J\r\nrm".into();
    document.taints[0].reason = "a\u{1b}]0;title\u{7}".into();
    document.verdict.reasons[0] = "\u{1b}[31mred".into();
    let text = table(&document, PLAIN);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

#[test]
fn nothing_measured_still_gives_a_verdict() {
    let empty = Plan { loads: Vec::new(), tainted: false, ..Plan::before() };
    let text = table(&ProveDocument::of(&empty.in_memory()), PLAIN);
    assert!(text.contains("nothing was measured") && text.contains("==> UNPROVEN"), "{text}");
}
