// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator why` for a terminal: on one screen the causes of the longest spikes, with the timeline of one
//! spike each and what to do; or all of it, with a table of causes.

use evidence::cause::Cause;
use evidence::why::{CauseTotal, ExplainedSpike, WhyDocument};

use crate::terminal::column::{self, TextColumn};
use crate::terminal::{ResultPaint, Style, wrapped};
use crate::{text, why};

/// Causes in the table; the JSON has all.
const CAUSES: usize = 12;

/// Suspects whose cure is shown: the others are less likely.
const SUSPECTS: usize = 3;

/// Where a cause's name begins: behind `  12,345.6 us  `.
const NAMES: usize = 17;

/// Causes that one screen holds.
const FIRST: usize = 3;

/// Parts of a timeline that one screen holds.
const PARTS: usize = 2;

/// The answer, the worst first; the advice ends each group. Without `all` it is one screen.
pub fn why(document: &WhyDocument, all: bool, style: Style) -> String {
    if all { whole(document, style) } else { first(document, style) }
}

/// The first causes, and how to see the others.
fn first(document: &WhyDocument, style: Style) -> String {
    let mut out = String::new();
    wrapped(&mut out, "", &why::collected(document), ResultPaint::Plain, style);
    for note in &document.notes {
        wrapped(&mut out, "note: ", &text::clean(note), ResultPaint::Unsure, style);
    }
    for part in &document.missing {
        wrapped(&mut out, "missing: ", &text::clean(part), ResultPaint::Unsure, style);
    }
    let groups = why::groups(document);
    let told = groups.iter().filter(|group| !group.spikes[0].causes.is_empty()).take(FIRST);
    for group in told {
        out.push('\n');
        let longest = group.spikes[0];
        let title = why::title(group, document);
        wrapped(&mut out, "", &format!("{title}; the longest:"), ResultPaint::Bad, style);
        short_spike(&mut out, longest, style);
        if let Some(line) = group.advice.first() {
            wrapped(&mut out, "advice: ", &text::clean(line), ResultPaint::Good, style);
        } else if let Some(line) = suspected(document, group).next() {
            wrapped(&mut out, "advice: ", &text::clean(&line), ResultPaint::Good, style);
        }
    }
    if !document.by_cause.is_empty() {
        let causes = text::plural(document.by_cause.len(), "cause");
        let words = format!("{causes} in all; isolator why --all shows each, and more timelines");
        out.push('\n');
        wrapped(&mut out, "", &words, ResultPaint::Quiet, style);
    }
    out.trim_end().to_string()
}

/// One spike with the longest parts of its timeline.
fn short_spike(out: &mut String, spike: &ExplainedSpike, style: Style) {
    let head = format!("{} · {}", text::us_unit(spike.latency_ns), why::place(spike));
    wrapped(out, "", &head, ResultPaint::Plain, style);
    let mut timed: Vec<&Cause> = spike.causes.iter().filter(|cause| !cause.is_suspect()).collect();
    if timed.is_empty() {
        within(out, "suspects: ", &why::suspects(spike), ResultPaint::Plain, style);
        return;
    }
    out.push_str(&format!("  {}\n", style.paint(ResultPaint::Quiet, &why::bar(spike, style.width() - 4))));
    timed.sort_by_key(|cause| u64::MAX - cause.duration_ns.unwrap_or(0));
    let (shown, rest) = timed.split_at(timed.len().min(PARTS));
    for cause in shown {
        let name = why::named(cause.kind, &cause.name);
        let (took, detail) = (why::tenth(cause.duration_ns.unwrap_or(0)), why::detail(cause));
        let line = format!("{} {took:>9} us  {name}", why::letter(cause.kind));
        let detail = if detail.is_empty() { String::new() } else { format!(", {detail}") };
        out.push_str(&format!("  {}\n", text::short(&format!("{line}{detail}"), style.width() - 2)));
    }
    let rest_ns = rest.iter().filter_map(|cause| cause.duration_ns).fold(0, u64::saturating_add);
    let shorter = match rest.len() {
        0 => None,
        number => Some(format!("{number} shorter {} us", why::tenth(rest_ns))),
    };
    let unexplained = why::unexplained(spike).map(|words| format!("unexplained {words}"));
    let paint = if spike.much_unexplained { ResultPaint::Unsure } else { ResultPaint::Quiet };
    let words: Vec<String> = [shorter, unexplained].into_iter().flatten().collect();
    if !words.is_empty() {
        within(out, "", &words.join(" · "), paint, style);
    }
}

/// What the likeliest suspects would ask for, where nothing with times was collected.
fn suspected<'a>(document: &'a WhyDocument, group: &why::CauseGroup) -> impl Iterator<Item = String> + 'a {
    let is_open = group.mostly.is_none();
    let suspects = document.by_cause.iter().filter(move |sum| sum.suspect && is_open).take(SUSPECTS);
    suspects.filter_map(|sum| {
        Some(format!("if it was {}: {}", why::named(sum.kind, &sum.name), sum.advice.as_ref()?))
    })
}

fn whole(document: &WhyDocument, style: Style) -> String {
    let mut out = String::new();
    wrapped(&mut out, "", &why::collected(document), ResultPaint::Plain, style);
    for note in &document.notes {
        wrapped(&mut out, "note: ", &text::clean(note), ResultPaint::Unsure, style);
    }
    for what in &document.could_not_see {
        wrapped(&mut out, "not seen: ", &text::clean(what), ResultPaint::Quiet, style);
    }
    if !document.not_tried.is_empty() {
        let kinds = document.not_tried.iter().map(|kind| text::clean(kind)).collect::<Vec<_>>().join(", ");
        wrapped(&mut out, "not tried at the start: ", &kinds, ResultPaint::Quiet, style);
    }
    for part in &document.missing {
        wrapped(&mut out, "missing: ", &text::clean(part), ResultPaint::Unsure, style);
    }
    if !document.by_cause.is_empty() {
        out.push('\n');
        table(&mut out, &document.by_cause, style);
    }
    for group in why::groups(document) {
        out.push('\n');
        wrapped(&mut out, "", &format!("{}:", why::title(&group, document)), ResultPaint::Bad, style);
        for (place, explained) in group.spikes.iter().enumerate() {
            if place > 0 && !explained.causes.iter().all(Cause::is_suspect) {
                out.push('\n');
            }
            spike(&mut out, explained, style);
        }
        let advice = group.advice.iter().map(|line| line.to_string());
        for line in advice.chain(suspected(document, &group)) {
            wrapped(&mut out, "advice: ", &text::clean(&line), ResultPaint::Good, style);
        }
    }
    out.trim_end().to_string()
}

fn table(out: &mut String, sums: &[CauseTotal], style: Style) {
    let shown = &sums[..sums.len().min(CAUSES)];
    let timed = |sum: &CauseTotal, ns| if sum.suspect { "-".to_string() } else { why::tenth(ns) };
    let most = style.width().saturating_sub(44).max(16);
    let mut columns = vec![
        TextColumn::text("cause", 0, shown, |sum| text::short(&why::summed(sum), most)),
        TextColumn::of("total us", 0, shown, |sum| timed(sum, sum.total_ns)),
        TextColumn::of("longest us", 2, shown, |sum| timed(sum, sum.max_ns)),
        TextColumn::of("spikes", 0, shown, |sum| text::count(sum.spikes)),
        TextColumn::of("times", 3, shown, |sum| text::count(sum.count)),
    ];
    column::fit(&mut columns, style.width());
    let head = column::line(columns.iter().map(|column| column.set(column.head)));
    out.push_str(&style.paint(ResultPaint::Quiet, &head));
    out.push('\n');
    for place in 0..shown.len() {
        out.push_str(&column::line(columns.iter().map(|column| column.set(&column.cells[place]))));
        out.push('\n');
    }
    if sums.len() > CAUSES {
        out.push_str(
            &style.paint(ResultPaint::Quiet, &format!("and {} more, in the JSON\n", sums.len() - CAUSES)),
        );
    }
    if shown.iter().any(|sum| sum.suspect) {
        let words = "suspect: its counter grew in the same second as a spike; the exact time is not known";
        wrapped(out, "", words, ResultPaint::Quiet, style);
    }
}

fn spike(out: &mut String, spike: &ExplainedSpike, style: Style) {
    let head = format!("spike {} · {}", text::us_unit(spike.latency_ns), why::place(spike));
    wrapped(out, "", &head, ResultPaint::Plain, style);
    let (causes, more, more_ns) = why::shown(spike);
    if causes.is_empty() {
        let suspects = why::suspects(spike);
        if !suspects.is_empty() {
            within(out, "suspects: ", &suspects, ResultPaint::Plain, style);
        }
        return;
    }
    let bar = why::bar(spike, style.width() - 4);
    out.push_str(&format!("  {}\n", style.paint(ResultPaint::Quiet, &bar)));
    // Names end where the longest does, as long as half a line is left for what they took.
    let name = |cause: &&Cause| why::named(cause.kind, &cause.name);
    let longest = causes.iter().map(|cause| name(cause).chars().count()).max().unwrap_or(0);
    let names = longest.clamp(12, style.width() / 2 - 6);
    out.push_str(&format!("{} us    {}\n", at(0), why::due(spike)));
    for cause in &causes {
        let name = text::short(&name(cause), names);
        let took = why::tenth(cause.duration_ns.unwrap_or(0));
        let line = format!(
            "{} us  {} {name:<names$} {took:>9} us",
            at(cause.begin_ns.unwrap_or(0)),
            why::letter(cause.kind)
        );
        let detail = why::detail(cause);
        if line.chars().count() + 2 + detail.chars().count() <= style.width() {
            out.push_str(format!("{line}  {detail}").trim_end());
            out.push('\n');
        } else {
            out.push_str(&format!("{line}\n"));
            beneath(out, &detail, style);
        }
    }
    if more > 0 {
        let name = format!("{more} shorter ones");
        out.push_str(&format!("{:>14}  {name:<names$} {:>9} us\n", "", why::tenth(more_ns)));
    }
    let unexplained = why::unexplained(spike).unwrap_or_default();
    let paint = if spike.much_unexplained { ResultPaint::Unsure } else { ResultPaint::Plain };
    let (runs, rest) =
        (format!("{} us    program runs", at(spike.latency_ns)), format!("unexplained {unexplained}"));
    let fits = runs.chars().count() + 3 + rest.chars().count() <= style.width();
    let between = if fits { "   ".to_string() } else { format!("\n{:NAMES$}", "") };
    out.push_str(&format!("{runs}{between}{}\n", style.paint(paint, &rest)));
    if spike.much_unexplained {
        within(out, "", "more than a tenth of this spike is unexplained", paint, style);
    }
    for line in why::siblings(spike) {
        within(out, "", &line, ResultPaint::Quiet, style);
    }
    let suspects = why::suspects(spike);
    if !suspects.is_empty() {
        within(out, "suspects: ", &suspects, ResultPaint::Quiet, style);
    }
}

/// As [`wrapped`], set in by two.
fn within(out: &mut String, lead: &str, line: &str, paint: ResultPaint, style: Style) {
    let mut text = String::new();
    wrapped(&mut text, lead, line, ResultPaint::Plain, Style { width: style.width() - 2, ..style });
    text.lines().for_each(|line| out.push_str(&format!("  {}\n", style.paint(paint, line))));
}

fn at(ns: u64) -> String {
    format!("{:>10}", why::tenth(ns))
}

/// What does not fit beside a cause stands under its name.
fn beneath(out: &mut String, detail: &str, style: Style) {
    let room = style.width().saturating_sub(NAMES).max(20);
    let mut line = String::new();
    for word in detail.split(' ') {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
            out.push_str(&format!("{:NAMES$}{line}\n", ""));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    out.push_str(&format!("{:NAMES$}{line}\n", ""));
}
