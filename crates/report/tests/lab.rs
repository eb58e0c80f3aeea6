// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of a lab run: counts that are no latencies, and whether they are a result at all.

use crate::common::{Plan, lab};
use evidence::Bundle;
use evidence::lab::LogVerdict;
use evidence::verdict::Verdict;

fn html(bundles: &[Bundle]) -> String {
    report::html(bundles).unwrap()
}

fn heading(page: &str) -> &str {
    let from = page.find("<h1").unwrap();
    &page[from..from + page[from..].find("</h1>").unwrap()]
}

/// The section, without what follows it.
fn section<'p>(page: &'p str, id: &str) -> &'p str {
    let from = page.find(&format!("<section id=\"{id}\"")).unwrap_or_else(|| panic!("no section {id}"));
    &page[from..from + page[from..].find("</section>").unwrap()]
}

#[test]
fn a_count_is_no_verdict_and_no_latency() {
    let verdict = Verdict::of(&lab::isolated());
    assert!(!verdict.held && verdict.limit_ns.is_none());
    let [why] = verdict.reasons.as_slice() else { panic!("{:?}", verdict.reasons) };
    assert!(why.starts_with("no verdict on a deadline is possible in the mode count: "), "{why}");
    let page = html(&[lab::isolated()]);
    assert!(heading(&page).ends_with("5,402 excursions in 3 scenarios"), "{}", heading(&page));
    for wrong in ["nothing was measured", "Nothing was measured", "Unproven", "id=\"maxima\"", "id=\"tail\""]
    {
        assert!(!page.contains(wrong), "{wrong}");
    }
    for said in [
        "Mode count.",
        "none of them is a time or a latency, so no verdict on a deadline is possible in this mode",
        "all 2 took effect",
        "clean, 1,841 lines",
    ] {
        assert!(page.contains(said), "{said}");
    }
}

#[test]
fn every_figure_of_a_row_is_in_its_table() {
    let bundle = lab::isolated();
    let page = html(std::slice::from_ref(&bundle));
    let table = section(&page, "excursions");
    for row in &bundle.lab.as_ref().unwrap().rows {
        assert!(table.contains(&format!("<th scope=\"row\">{}</th>", row.scenario)));
    }
    for cell in ["5.0", "362", "613,470", "16,785", "asm_sysvec_timer", "602,280", "1,673", "5,019"] {
        assert!(table.contains(&format!(">{cell}</td>")), "{cell}");
    }
    assert!(table.contains("nothing entered the kernel"));
    assert!(table.contains("some_function_of_the_kernel_0") && table.contains("and 28 more, in lab.json"));
    // None has no bar, and the larger of two counts the longer one.
    let bars: Vec<f64> = table
        .match_indices("<rect width=\"")
        .map(|(at, found)| table[at + found.len()..].split('%').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(bars.len(), 3);
    assert!(bars[0] == 0.0 && 0.0 < bars[1] && bars[1] < bars[2] && bars[2] <= 100.0, "{bars:?}");
}

#[test]
fn witness_storms_emulator_and_seed_are_shown() {
    let page = html(&[lab::isolated()]);
    for cell in ["3,984", "4,000", "3,884", "97.1 %", "97.4 %"] {
        assert!(section(&page, "witness").contains(&format!(">{cell}</td>")), "{cell}");
    }
    assert!(section(&page, "witness").contains("only the guest names call_function_single_entry, 5 times"));
    assert!(section(&page, "witness").contains("not compared, since the records are too long: 0 more"));
    assert!(section(&page, "witness").contains("1,234 more that the scope saw"));
    assert!(section(&page, "storms").contains("module-load switched 120 times"));
    for fact in ["QEMU 7.2.22", "<td class=\"text\">7</td>", "skew_tick=1", "debian-rt", "45db45db"] {
        assert!(section(&page, "lab").contains(fact), "{fact}");
    }
}

#[test]
fn an_idle_storm_or_a_complaining_kernel_is_no_result() {
    let mut idle = lab::isolated();
    lab::of(&mut idle).storms[1].took_effect = false;
    let why = &Verdict::of(&idle).reasons[0];
    assert!(why.contains("took no effect"), "{why}");
    let page = html(&[idle]);
    assert!(heading(&page).contains("✗") && heading(&page).contains("No result: 1 storm took no effect"));
    assert!(page.contains("only 1 of 2 took effect") && section(&page, "storms").contains("✗ NO"));

    let mut unloaded = lab::isolated();
    lab::of(&mut unloaded).loads[0].took_effect = false;
    assert!(Verdict::of(&unloaded).reasons[0].starts_with("the load in quiet under cpu took no effect: "));
    assert!(heading(&html(&[unloaded])).contains("No result: 1 load took no effect"));

    let mut complaining = lab::isolated();
    let log = &mut lab::of(&mut complaining).guest_log;
    log.verdict = LogVerdict::Bad;
    log.warnings.push("quiet: rcu: INFO: self-detected stall on CPU".into());
    let page = html(&[lab::stock(), complaining]);
    assert!(
        heading(&page).ends_with("B: no result: the guest&#x27;s kernel complained"),
        "{}",
        heading(&page)
    );
    assert!(section(&page, "log").contains("rcu: INFO: self-detected stall on CPU"));
    assert!(section(&page, "beside").contains("✗ no result"), "the column says so too");
}

#[test]
fn several_runs_are_one_table_with_changes_against_the_first() {
    let page = html(&[lab::stock(), lab::isolated()]);
    let table = section(&page, "beside");
    for said in ["nothing added", "skew_tick=1", "1,220", "−100 %", "1,710", "−79 %", "not run"] {
        assert!(table.contains(said), "{said}\n{table}");
    }
    assert!(table.contains("in 6.4 s") && table.contains("in 10.0 s") && !table.contains("in 5.0 s"));
    assert!(table.contains("class=\"bar count\""), "the same as a picture");
}

#[test]
fn virtual_nanoseconds_are_called_so() {
    let worst = |bundle: &Bundle| {
        let max_ns = bundle.rows.iter().map(|row| evidence::Summary::of(row).max_ns).max().unwrap();
        let (thousands, rest) = (max_ns / 1000, max_ns % 1000);
        format!("{thousands},{rest:03}")
    };
    let bundles = [lab::virtual_time("before", 4.0), lab::virtual_time("after", 1.0)];
    let page = html(&bundles[1..]);
    let said = format!("At most {} virtual ns", worst(&bundles[1]));
    assert!(heading(&page).ends_with(&said), "{}", heading(&page));
    assert!(section(&page, "verdict").contains("100,000 virtual ns"));
    assert!(section(&page, "verdict").contains("tainted by emulated"));
    assert!(section(&page, "maxima").contains("wakeup every 1 ms, virtual time"));
    assert!(section(&page, "figures").contains("virtual nanoseconds"));

    let table = html(&bundles);
    let table = section(&table, "beside");
    for bundle in &bundles {
        assert!(table.contains(&worst(bundle)), "{}", worst(bundle));
    }
}

#[test]
fn virtual_and_real_latencies_share_no_axis_and_counts_none() {
    let real = Plan { cpus: 1..2, spin: false, loads: vec!["idle"], ..Plan::after() }.in_memory();
    let page = html(&[real, lab::virtual_time("virtual", 1.0), lab::isolated()]);
    let titles = |id: &str| section(&page, id).matches("wakeup every 1 ms").count();
    assert_eq!(titles("figures"), 2);
    assert!(
        section(&page, "taints")
            .contains("counted excursions and measured no latency, so there are no spikes")
    );
    assert!(page.contains("evidence report"), "not all of it is of the lab");
}

#[test]
fn foreign_text_of_a_guest_never_becomes_markup() {
    let evil = "\"><script>alert(1)</script>";
    let mut bundles = [lab::stock(), lab::isolated()];
    for bundle in &mut bundles {
        bundle.path = evil.into();
        let lab = lab::of(bundle);
        lab.kernel = evil.into();
        lab.boot_line = evil.into();
        lab.emulator = evil.into();
        lab.mode_reason = evil.into();
        lab.guest_log.verdict = LogVerdict::Bad;
        lab.guest_log.warnings.push(format!("quiet: BUG: {evil}\u{1b}[2J"));
        lab.witness[0].scenario = evil.into();
        lab.witness[0].differences.push(evil.into());
        lab.storms[0] = evidence::lab::StormDid {
            scenario: evil.into(),
            name: evil.into(),
            took_effect: false,
            did: evil.into(),
        };
        for row in &mut lab.rows {
            row.scenario = format!("{}{evil}", row.scenario);
            row.by_entry.insert(
                evil.into(),
                evidence::lab::EntryExcursions { count: 9_999, instructions: 1, max: 1 },
            );
            row.functions.insert(evil.into(), 9_999);
        }
    }
    for page in [html(&bundles), html(&bundles[..1])] {
        assert_eq!(page.matches("<script").count(), 1, "but for the page's own");
        assert!(page.contains("&lt;script&gt;alert(1)"));
        assert!(!page.contains('\u{1b}'));
    }
}

#[test]
fn a_lab_page_grows_by_what_is_listed_only() {
    let mut bundle = lab::isolated();
    let row = &mut lab::of(&mut bundle).rows[1];
    row.by_entry =
        (0..5_000).map(|n| (format!("entry_{n}"), evidence::lab::EntryExcursions::default())).collect();
    let page = html(&[bundle]);
    assert!(page.len() < 80_000, "{} bytes", page.len());
    assert!(page.contains("and 4988 more, in lab.json"));
}
