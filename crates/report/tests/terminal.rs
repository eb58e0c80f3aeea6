// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table for people: what it says, and that it fits.

use crate::common::{Plan, lab as of_a_lab};
use cause::rates::{Interrupter, WatchDocument};
use evidence::cause::CauseKind;
use evidence::document::ProveDocument;
use evidence::fitness::UseVerdict;
use report::terminal::{Style, WatchView, WhyExtent, brief, comparison, lab, table, watch, why};
use report::watch::WatchColumn;
use why::{Question, WhyDocument};

const PLAIN: Style = Style { color: false, width: 120 };

/// One CPU, for speed.
fn plan(plan: Plan) -> Plan {
    Plan { cpus: 2..3, ..plan }
}

fn stock() -> ProveDocument {
    ProveDocument::of(&plan(Plan::before()).in_memory())
}

#[test]
fn the_verdict_first_and_a_line_a_row() {
    let document = stock();
    let text = table(&document, PLAIN);
    let lines: Vec<_> = text.lines().collect();
    let said = "==> DOES NOT HOLD 100 us: 0.007 % of cycles were late, accepted: not-real-time-kernel";
    assert_eq!(lines[..2], [said, ""]);
    assert!(lines[2].starts_with("probe"), "{}", lines[2]);
    let rows = lines.iter().filter(|line| line.ends_with(" ok") || line.ends_with(" LATE"));
    assert_eq!(rows.count(), document.rows.len());
}

#[test]
fn a_screen_has_the_table_and_a_few_lines_below_it() {
    let mut document = stock();
    document.notes = (0..20).map(|n| format!("note {n} {}", "word ".repeat(60))).collect();
    let style = Style { color: false, width: 80 };
    let text = brief(&document, None, style);
    let (_, below) = text.split_once("latencies in us\n\n").unwrap();
    let lines: Vec<_> = below.lines().collect();
    assert!(lines.len() <= 6 && lines.iter().all(|line| line.chars().count() <= 80), "{below}");
    // The most serious first, and how much is left.
    assert!(lines[0].starts_with("wakeup under gpu not run: "), "{below}");
    assert!(lines.last().unwrap().ends_with(" more, in the report and with --verbose"), "{below}");
    let said =
        "==> DOES NOT HOLD 100 us: 0.007 % of cycles were late, accepted:\n  not-real-time-kernel\n\nprobe ";
    assert!(text.starts_with(said), "{text}");
    // What the table says need not be said again.
    assert!(!text.contains("maximum") && table(&document, style).contains("maximum"), "{text}");
}

#[test]
fn rows_that_hold_make_room_for_the_verdict() {
    let mut document = stock();
    document.notes = (0..20).map(|n| format!("note {n} {}", "word ".repeat(60))).collect();
    let row = document.rows[0].clone();
    document.rows = (0..40).map(|_| row.clone()).collect();
    for (place, row) in document.rows.iter_mut().enumerate() {
        (row.key.cpu, row.over_limit, row.missed, row.max_ns) = (place as u32, 0, 0, 50_000 + place as u64);
    }
    let late = |document: &mut ProveDocument, places: &[usize]| {
        for place in places.iter().copied() {
            (document.rows[place].over_limit, document.rows[place].max_ns) =
                (1, 200_000 + 1_000 * place as u64);
        }
    };
    let style = Style { color: false, width: 80 };
    let cpus = |text: &str| -> Vec<u32> {
        let rows = text.lines().filter(|line| line.ends_with(" ok") || line.ends_with(" LATE"));
        rows.map(|line| line.split_whitespace().nth(2).unwrap().parse().unwrap()).collect()
    };
    late(&mut document, &[7, 30]);
    let text = brief(&document, Some(23), style);
    // Two lines are for the report and the next command.
    assert!(text.lines().count() <= 21 && text.starts_with("==> "), "{text}");
    let shown = cpus(&text);
    assert!(shown.starts_with(&[7, 30]) && shown[2..].iter().all(|cpu| *cpu > 30), "{text}");
    let held = 40 - shown.len();
    assert!(
        text.contains(&format!("+ {held} rows that hold: --verbose shows all · latencies in us")),
        "{text}"
    );
    assert!(!brief(&document, None, style).contains("--verbose shows all"), "a file has them all");

    late(&mut document, &(0..40).collect::<Vec<_>>());
    let text = brief(&document, Some(10), style);
    assert_eq!(cpus(&text), [37, 38, 39], "{text}");
    assert!(text.contains("+ 37 late rows: --verbose"), "{text}");
}

#[test]
fn a_starved_row_is_explained_before_all_else() {
    let mut document = stock();
    let why = "thread servo under idle began no cycle for 3.2 of 10.0 s: preempted by thread base";
    document.verdict.reasons.push(why.into());
    let text = brief(&document, None, PLAIN);
    let (_, below) = text.split_once("latencies in us\n\n").unwrap();
    assert!(below.starts_with(&format!("- {why}\n")), "{text}");
}

#[test]
fn a_screen_with_little_to_say_says_all() {
    let mut document = ProveDocument::of(&plan(Plan::after()).in_memory());
    (document.taints, document.notes) = (Vec::new(), vec!["all was quiet".into()]);
    document.not_run.clear();
    let text = brief(&document, None, PLAIN);
    assert!(text.contains("note: all was quiet\n") && !text.contains(" more, in the report"), "{text}");
}

#[test]
fn a_use_is_graded_below_the_verdict() {
    let mut document = stock();
    document.purpose = UseVerdict::of("linuxcnc:1ms", &document.rows);
    let text = brief(&document, None, PLAIN);
    let second = text.lines().nth(1).unwrap();
    assert!(
        second.contains(" for linuxcnc:1ms: servo thread ") && second.contains("unfit from 500 us"),
        "{text}"
    );
    document.purpose = UseVerdict::of("audio:48@48000", &document.rows);
    let text = brief(&document, None, PLAIN);
    assert!(text.lines().nth(3).unwrap().contains(" xruns ") && text.contains(" callbacks, "), "{text}");
}

#[test]
fn the_verdict_says_held_and_unproven_too() {
    let held = ProveDocument::of(&plan(Plan::after()).in_memory());
    assert!(table(&held, PLAIN).starts_with("==> HOLDS 100 us\n"));
    let tainted = ProveDocument::of(&Plan { tainted: true, ..plan(Plan::after()) }.in_memory());
    let text = table(&tainted, PLAIN);
    assert!(text.starts_with("==> UNPROVEN: 100 us was kept, but that is not proven, accepted: "), "{text}");
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
    let document = stock();
    for width in [40, 60, 80, 100, 132] {
        let text = table(&document, Style { color: false, width });
        for line in text.lines().filter(|line| !line.starts_with("- ")) {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
        let head = text.lines().find(|line| line.contains("cpu ") && line.contains(" max")).unwrap();
        assert!(["load", "cpu", "max"].iter().all(|column| head.contains(column)), "{width}: {head}");
        assert_eq!(head.contains("mean"), width >= 80, "{width}: {head}");
    }
}

#[test]
fn colour_only_adds_to_words() {
    let document = stock();
    let coloured = table(&document, Style { color: true, width: 80 });
    let plain = table(&document, Style { color: false, width: 80 });
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
    assert!(text.starts_with("==> UNPROVEN: nothing was measured\n"), "{text}");
}

#[test]
fn a_comparison_says_what_changed_and_both_verdicts() {
    let bundles = [Plan::before(), Plan::after()].map(|run| plan(run).in_memory());
    let found = compare::compare(&bundles[0], &bundles[1], false);
    let text = comparison(&found, Style { color: false, width: 100 });
    // The figures are the last but for the verdicts, where a small screen shows them.
    let block = text.split("\n\n").find(|block| block.contains("\np50 ")).unwrap();
    let figures: Vec<_> = block.lines().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(figures, ["p50", "p99", "p99.9", "p99.999", "max", "mean"], "{text}");
    assert!(block.lines().any(|line| line.starts_with("p50") && line.ends_with("better")), "{text}");
    assert!(text.contains("taint before: steal"), "{text}");
    assert!(text.ends_with("==> before DOES NOT HOLD 100 us, after HOLDS 100 us\n"), "{text}");
}

#[test]
fn unlike_runs_are_not_compared_but_by_force() {
    let bundles = [Plan::before(), Plan { seconds: 30, ..Plan::after() }].map(|run| plan(run).in_memory());
    let refused = comparison(&compare::compare(&bundles[0], &bundles[1], false), PLAIN);
    assert!(
        refused.contains("unlike: duration 60s before but 30s after") && !refused.contains("p99.9"),
        "{refused}"
    );
    assert!(refused.ends_with("==> NOT COMPARED: the runs have different options\n"), "{refused}");
    let forced = comparison(&compare::compare(&bundles[0], &bundles[1], true), PLAIN);
    assert!(forced.contains("p99.9") && forced.contains("UNLIKE RUNS"), "{forced}");
}

#[test]
fn a_lab_run_is_a_line_a_scenario_with_what_entered_below_it() {
    let text = lab(of_a_lab::isolated().lab.as_ref().unwrap(), PLAIN);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("scenario") && lines[0].ends_with("longest"), "{text}");
    assert_eq!(lines[2], "    nothing entered the kernel");
    let cells: Vec<_> = lines[3].split_whitespace().collect();
    assert_eq!(cells, ["static-keys", "1", "10.0", "362", "613,470", "16,785"]);
    assert_eq!(lines[4], "    360 asm_sysvec_call_function_single, 2 asm_sysvec_timer");
    assert!(text.contains("no verdict on a") && text.contains("(recall 97.1 %,"), "{text}");
    assert_eq!(*lines.last().unwrap(), "==> 5,402 excursions in 3 scenarios");
}

#[test]
fn a_lab_run_fits_every_terminal_and_keeps_its_counts() {
    let bundle = of_a_lab::isolated();
    for width in [48, 60, 80, 100, 132] {
        let text = lab(bundle.lab.as_ref().unwrap(), Style { color: false, width });
        for line in text.lines().filter(|line| !line.contains("isolcpus=")) {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
        assert!(text.contains("360 asm_sysvec_call_function_single"), "a number stays with its name\n{text}");
        assert!(text.contains("5,040"), "{width}\n{text}");
    }
}

#[test]
fn a_lab_run_that_is_no_result_says_so_last() {
    let mut bundle = of_a_lab::isolated();
    let document = of_a_lab::of(&mut bundle);
    document.storms[0].took_effect = false;
    document.storms[0].did = "no such file\u{1b}[2J".into();
    document.boot_line.clear();
    let text = lab(document, PLAIN);
    assert!(text.contains("storm static-keys: TOOK NO EFFECT: no such file\u{fffd}[2J"), "{text}");
    assert!(text.contains("boot: nothing added\n"), "{text}");
    assert!(text.ends_with("==> NO RESULT: 1 storm took no effect"), "{text}");
}

#[test]
fn virtual_time_is_named_in_the_table() {
    let text = table(&ProveDocument::of(&of_a_lab::virtual_time("virtual", 1.0)), PLAIN);
    assert!(text.contains("latencies in thousands of virtual nanoseconds"), "{text}");
}

fn why_of(style: Style) -> String {
    let bundle = plan(Plan::before()).in_memory();
    let document = WhyDocument::of(&bundle, &Question { top: 20, ..Question::default() });
    assert_eq!(document.spikes.len(), 20);
    why(&document, WhyExtent::All, style)
}

#[test]
fn spikes_are_told_by_cause_with_their_timeline_and_what_to_do() {
    let text = why_of(PLAIN);
    for part in [
        "causes collected by bpf; 12 events were lost",
        "not seen: the firmware's interrupts",
        "Kernel thread kworker/3:1H took the longest part of ",
        "IPI call function do_sync_core",
        "sent by cpu 0 `echo` (pid 4211) in text_poke_bp_batch",
        "woken by irq 45",
        "program runs   unexplained ",
        "sibling cpu 7 meanwhile: thread stress-ng-cpu",
        "advice: move irq 45 off cpu 2: echo 0 > /proc/irq/45/smp_affinity_list",
        "suspects: irq 45 nvme0q3 (12), softirq BLOCK (9)",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn three_causes_with_one_timeline_each_fit_a_screen() {
    let bundle = plan(Plan::before()).in_memory();
    let document = WhyDocument::of(&bundle, &Question { top: 20, ..Question::default() });
    for width in [80, 100, 120] {
        let shown = |lines| why(&document, WhyExtent::Screen(lines), Style { color: false, width });
        let text = shown(0);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}\n{text}");
        assert!(text.lines().count() <= 22, "{text}");
        // A larger screen shows more of the same, and no more than it holds.
        let larger = shown(48);
        assert!((text.lines().count() + 1..=48).contains(&larger.lines().count()), "{larger}");
        for said in [
            "Does not hold",
            "causes collected by bpf; 12",
            "events were lost",
            "Kernel thread kworker/3:1H took the longest part of ",
            "Tick sched_timer took the longest part of ",
            "Suspects only; the longest ",
            "k ",
            "unexplained ",
            "suspects: irq 45 nvme0q3 (12), softirq BLOCK (9)",
            "if it was irq 45 nvme0q3: move irq 45 off ",
            " causes in all; isolator why --all shows each",
        ] {
            assert!(text.contains(said), "{said}\n{text}");
        }
        assert_eq!(text.matches("advice: ").count(), 3, "{text}");
    }
}

#[test]
fn a_timeline_fits_its_terminal() {
    for width in [60, 80, 100, 200] {
        let text = why_of(Style { color: false, width });
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{width}: {line}\n{text}");
        }
    }
    assert!(!why_of(PLAIN).contains('\u{1b}'));
}

fn watched(cpus: std::ops::Range<u32>) -> WatchDocument {
    let named = [
        (CauseKind::Tick, "local timer", 250.0),
        (CauseKind::Irq, "45 nvme0q3 and a name that is very long indeed", 12.5),
    ];
    let rare = (0..60).map(|n| (CauseKind::Irq, format!("{n} dev\u{1b}[31m{n}"), 0.0));
    let all: Vec<_> =
        named.map(|(kind, name, rate)| (kind, name.to_string(), rate)).into_iter().chain(rare).collect();
    let of_cpu = |cpu: u32| {
        let one = move |(kind, name, rate): (CauseKind, String, f64)| Interrupter {
            cpu,
            kind,
            name,
            count: rate as u64,
            per_second: rate * f64::from(cpu),
            total: 1 + rate as u64 * 1_000,
        };
        all.clone().into_iter().map(one).collect::<Vec<_>>()
    };
    WatchDocument {
        schema_version: 1,
        number: 1,
        time: "2026-03-01T10:00:00.123Z".into(),
        interval_ns: 1_000_012_345,
        cpus: cpus.clone().collect(),
        isolated: cpus.clone().collect(),
        sources: cpus.flat_map(of_cpu).collect(),
        senders: None,
        could_not_see: vec!["/proc/softirqs cannot be read".into()],
    }
}

#[test]
fn a_watch_fits_its_terminal_and_shows_the_busiest() {
    for (width, lines) in [(80, 24), (120, 50), (40, 10)] {
        let text = watch(&watched(2..20), &mut WatchView::default(), Style { color: false, width }, lines);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}\n{text}");
        assert!(text.lines().count() <= lines, "{lines}\n{text}");
        // A phone has no room for a column per CPU, and says so.
        let cpus = if width < 80 { "18 cpus not shown" } else { "cpu 19" };
        for part in ["isolated cpus 2-19 · the last 1 s", "tick local timer", " of 62", cpus, "not seen: "] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
    }
    let two = watch(&watched(2..4), &mut WatchView::default(), PLAIN, 24);
    assert!(
        two.contains("tick local timer") && two.contains("cpu 2") && !two.contains("fewer interrupts"),
        "{two}"
    );
    let nothing = WatchDocument { sources: Vec::new(), ..watched(2..4) };
    let quiet = watch(&nothing, &mut WatchView::default(), PLAIN, 24);
    assert!(quiet.contains("nothing has interrupted since the watch began"), "{quiet}");
}

#[test]
fn a_watch_is_sorted_by_each_column_and_scrolled_to_its_ends() {
    let (document, style) = (watched(2..4), Style { color: false, width: 119 });
    let mut view = WatchView::with_keys();
    let first = |view: &mut WatchView| {
        let text = watch(&document, view, style, 12);
        assert!(text.lines().count() <= 12 && text.lines().last().unwrap().starts_with("q quit"), "{text}");
        let lines: Vec<String> = text.lines().map(str::to_string).collect();
        (lines[1].clone(), lines[2].clone(), text)
    };
    let (head, row, _) = first(&mut view);
    assert!(head.contains("in all▾") && row.starts_with("tick local timer"), "{head}\n{row}");
    view.sort_by(WatchColumn::Name);
    let (head, row, text) = first(&mut view);
    assert!(head.starts_with("source▾") && row.starts_with("irq 0 dev"), "{text}");
    assert!(text.contains("sources 1 to ") && text.contains(" of 62"), "{text}");
    view.reverse();
    let (head, row, _) = first(&mut view);
    assert!(head.starts_with("source▴") && row.starts_with("tick local timer"), "{head}\n{row}");
    // To the right: in all, per s, cpu 2, cpu 3, and no further.
    let mut heads = Vec::new();
    for _ in 0..6 {
        view.sort_beside(true);
        let (head, row, _) = first(&mut view);
        assert!(row.starts_with("tick local timer"), "{row}");
        heads.push(head.split('▾').next().unwrap().split("  ").last().unwrap().trim().to_string());
    }
    assert_eq!(heads, ["in all", "per s", "cpu 2", "cpu 3", "cpu 3", "cpu 3"]);
    view.sort_beside(false);
    assert!(first(&mut view).0.contains("cpu 2▾"));

    view.sort_by(WatchColumn::Total);
    view.page(true);
    let after_a_page = first(&mut view).2;
    assert!(!after_a_page.contains("tick local timer"), "{after_a_page}");
    view.scroll(isize::MAX);
    let end = first(&mut view).2;
    assert!(end.contains(" to 62 of 62"), "{end}");
    view.scroll(1);
    assert_eq!(first(&mut view).2, end);
    view.scroll(isize::MIN);
    assert!(first(&mut view).1.starts_with("tick local timer"));
}
