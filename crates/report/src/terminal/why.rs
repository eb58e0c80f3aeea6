// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator why` for a terminal: on one screen the causes of the longest spikes, with the timeline of one
//! spike each and what to do; or all of it, with a table of causes.
//!
//! The screen has what each cause needs at the least, its whole advice among it: where three do not fit, it
//! has fewer causes. What room there is goes to more of the timelines.

use ::why::{CauseTotal, ExplainedSpike, WhyDocument};
use evidence::cause::{Cause, CauseShare, shares};
use machine::quantity::Sign;

use crate::outcome::{OutcomeText, judged, outcome_text};
use crate::terminal::column::{self, TextColumn};
use crate::terminal::{ResultPaint, Style, broken, cut, wrapped};
use crate::{text, why};

/// Causes in the table; the JSON has all.
const CAUSES: usize = 12;

/// Suspects whose cure is shown: the others are less likely.
const SUSPECTS: usize = 3;

/// Where a cause's name begins: behind `  12,345.6 us  `.
const NAMES: usize = 17;

/// Causes that one screen holds.
const FIRST: usize = 3;

/// Parts of a timeline that one screen holds at the most.
const PARTS: usize = 4;

/// Lines of the smallest screen, with the next command and the prompt below them.
const SCREEN: usize = 22;

/// Lines that notes, and parts of the bundle that are missing, take of a screen.
const NOTES: usize = 4;

/// The extent of the output of `why`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyExtent {
    /// The first causes, in so many lines; of a screen where that is more.
    Screen(usize),
    /// All of them.
    All,
}

/// The answer, the worst first; the advice ends each group.
pub fn why(document: &WhyDocument, extent: WhyExtent, style: Style) -> String {
    match extent {
        WhyExtent::All => whole(document, style),
        WhyExtent::Screen(lines) => first(document, lines.max(SCREEN), style),
    }
}

/// The first causes in so many lines, and how to see the others.
fn first(document: &WhyDocument, lines: usize, style: Style) -> String {
    let mut out = String::new();
    let notes = document.notes.iter().map(|note| format!("note: {}", text::clean(note)));
    let missing = document.missing.iter().map(|part| format!("missing: {}", text::clean(part)));
    let mut notes: Vec<String> = notes.chain(missing).flat_map(|line| cut(&line, 2, style)).collect();
    if notes.len() > NOTES {
        notes.truncate(NOTES - 1);
        notes.push("and more, with --all".to_string());
    }
    notes.iter().for_each(|line| out.push_str(&format!("{}\n", style.paint(ResultPaint::Unsure, line))));
    let groups = why::groups(document);
    let told = groups.iter().filter(|group| !group.spikes[0].causes.is_empty()).take(FIRST);
    let mut told: Vec<ToldCause> = told.map(|group| ToldCause::of(document, group, style)).collect();
    let more = match document.by_cause.len() {
        0 => None,
        causes => {
            let causes = text::plural(causes, "cause");
            Some(format!("{causes} in all; isolator why --all shows each, and more timelines"))
        }
    };
    let more = more.map(|line| text::short(&line, style.width()));
    let collected = broken(&why::collected(document), style.width()).len();
    let taken = collected + out.lines().count() + usize::from(more.is_some());
    let has_room = taken + told.iter().map(ToldCause::fewest_lines).sum::<usize>() < lines;
    out.insert_str(0, &head(document, has_room, style));
    let taken = out.lines().count() + usize::from(more.is_some());
    spend(&mut told, lines.saturating_sub(taken), style);
    for one in &told {
        one.write(&mut out, style);
    }
    if let Some(line) = more {
        out.push_str(&format!("{}\n", style.paint(ResultPaint::Quiet, &line)));
    }
    out.trim_end().to_string()
}

/// The verdict, and how causes were collected; on one line where there is no room for two, of the verdict as
/// much as fits.
fn head(document: &WhyDocument, has_room: bool, style: Style) -> String {
    let (mut out, collected) = (String::new(), why::collected(document));
    let Some(parts) = document.verdict.as_ref().filter(|_| !has_room) else {
        out.push_str(&verdict(document, style));
        wrapped(&mut out, "", &collected, ResultPaint::Plain, style);
        return out;
    };
    let (whole, limit) = (judged(parts, Sign::Plain), outcome_text(parts, Sign::Plain));
    let forms = [format!("{}{}; ", whole.word, whole.rest), format!("{}{}; ", limit.word, limit.rest)];
    let lines = |lead: &str| broken(&format!("{lead}{collected}"), style.width()).len();
    let fits = forms.into_iter().find(|lead| lines(lead) == lines(""));
    let lead = fits.unwrap_or_else(|| format!("{}; ", limit.word));
    wrapped(&mut out, &lead, &collected, ResultPaint::Plain, style);
    out
}

/// Leaves out the last causes where not all fit, and gives the rest of `lines` to the timelines by turns.
fn spend(told: &mut Vec<ToldCause>, lines: usize, style: Style) {
    let taken = |told: &[ToldCause]| told.iter().map(ToldCause::lines).sum::<usize>();
    if taken(told) > lines {
        told.iter_mut().for_each(|one| one.has_gap = false);
    }
    if taken(told) > lines {
        told.iter_mut().for_each(|one| one.title = cut(&one.title.join(" ").replace("   ", " "), 1, style));
    }
    while taken(told) > lines && told.len() > 1 {
        told.pop();
    }
    let mut is_growing = true;
    while is_growing {
        is_growing = false;
        for place in 0..told.len() {
            let one = &told[place];
            if taken(told) < lines && one.shown_parts < one.parts.len().min(PARTS) {
                told[place].shown_parts += 1;
                is_growing = true;
            }
        }
    }
}

/// A cause with one timeline, and how much of it is shown.
struct ToldCause<'a> {
    title: Vec<String>,
    spike: &'a ExplainedSpike,
    /// The longest first.
    parts: Vec<CauseShare<'a>>,
    shown_parts: usize,
    suspects: Option<String>,
    advice: Vec<String>,
    /// Whether an empty line stands before it.
    has_gap: bool,
}

impl<'a> ToldCause<'a> {
    fn of(document: &WhyDocument, group: &why::CauseGroup<'a>, style: Style) -> ToldCause<'a> {
        let spike = group.spikes[0];
        let longest = text::us(spike.latency_ns);
        let title = format!("{}; the longest {longest}:", why::title(group, document));
        let parts = shares(&spike.causes);
        let advice = group.advice.first().map(|line| line.to_string());
        let advice = advice.or_else(|| suspected(document, group).next());
        let advice = advice.map(|line| broken(&format!("advice: {}", text::clean(&line)), style.width()));
        let suspects = why::suspects(spike);
        let suspects = (parts.is_empty() && !suspects.is_empty()).then(|| format!("suspects: {suspects}"));
        ToldCause {
            title: cut(&title, 2, style),
            spike,
            shown_parts: parts.len().min(1),
            parts,
            suspects,
            advice: advice.unwrap_or_default(),
            has_gap: true,
        }
    }

    /// Lines that it takes.
    fn lines(&self) -> usize {
        let timeline = if self.parts.is_empty() { 1 } else { 2 };
        let suspects = usize::from(self.suspects.is_some());
        self.title.len()
            + timeline
            + self.shown_parts
            + suspects
            + self.advice.len()
            + usize::from(self.has_gap)
    }

    /// Lines that it takes where there is no room to spare.
    fn fewest_lines(&self) -> usize {
        self.lines() - usize::from(self.has_gap) - self.title.len().saturating_sub(1)
    }

    fn write(&self, out: &mut String, style: Style) {
        let mut line = |paint, text: &str| out.push_str(&format!("{}\n", style.paint(paint, text)));
        if self.has_gap {
            line(ResultPaint::Plain, "");
        }
        self.title.iter().for_each(|text| line(ResultPaint::Bad, text));
        let place = why::place(self.spike);
        if self.parts.is_empty() {
            line(ResultPaint::Plain, &text::short(&format!("  {place}"), style.width()));
        } else {
            // The picture takes what the place leaves, and a third of the line at the least.
            let room = (style.width() / 3).max(style.width().saturating_sub(place.chars().count() + 4));
            let pictured = format!("  {}  {place}", why::bar(self.spike, room));
            line(ResultPaint::Quiet, &text::short(&pictured, style.width()));
        }
        let (shown, rest) = self.parts.split_at(self.shown_parts);
        for share in shown {
            let (kind, took) = (share.longest.kind, text::tenth_us(share.ns));
            let words = [why::named(kind, &share.longest.name), why::details(share, Sign::Plain)];
            let words = words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", ");
            let part = format!("  {} {took:>12}  {words}", kind.letter());
            line(ResultPaint::Plain, &text::short(&part, style.width()));
        }
        let rest_ns = rest.iter().map(|share| share.ns).fold(0, u64::saturating_add);
        let shorter = match rest.len() {
            0 => None,
            number => Some(format!("{number} shorter: {}", text::tenth_us(rest_ns))),
        };
        let unexplained =
            why::unexplained(self.spike, Sign::Plain).map(|words| format!("unexplained {words}"));
        let words: Vec<String> = [shorter, unexplained].into_iter().flatten().collect();
        if !(self.parts.is_empty() || words.is_empty()) {
            let paint = if self.spike.much_unexplained { ResultPaint::Unsure } else { ResultPaint::Quiet };
            line(paint, &text::short(&format!("  {}", words.join(" · ")), style.width()));
        }
        if let Some(suspects) = &self.suspects {
            line(ResultPaint::Plain, &text::short(&format!("  {suspects}"), style.width()));
        }
        self.advice.iter().for_each(|text| line(ResultPaint::Good, text));
    }
}

/// The advice of the likeliest suspects, where nothing with times was collected.
fn suspected<'a>(document: &'a WhyDocument, group: &why::CauseGroup) -> impl Iterator<Item = String> + 'a {
    let is_open = group.mostly.is_none();
    let suspects = document.by_cause.iter().filter(move |sum| sum.suspect && is_open).take(SUSPECTS);
    suspects.filter_map(|sum| {
        Some(format!("if it was {}: {}", why::named(sum.kind, &sum.name), sum.advice.as_ref()?))
    })
}

/// The verdict that the spikes stand beside, in one line.
fn verdict(document: &WhyDocument, style: Style) -> String {
    let Some(parts) = &document.verdict else { return String::new() };
    let OutcomeText { state: _, mark: _, word, rest } = judged(parts, Sign::Plain);
    let line = text::short(&format!("verdict: {word}{rest}"), style.width());
    format!("{}\n", style.paint(ResultPaint::Quiet, &line))
}

fn whole(document: &WhyDocument, style: Style) -> String {
    let mut out = verdict(document, style);
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
    if let Some(line) = why::unseen(document) {
        wrapped(&mut out, "", &line, ResultPaint::Quiet, style);
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
    let timed = |sum: &CauseTotal, ns| if sum.suspect { "-".to_string() } else { text::tenth(ns) };
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
    let head = format!("spike {} · {}", text::us(spike.latency_ns), why::place(spike));
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
    let name = |share: &CauseShare| why::named(share.longest.kind, &share.longest.name);
    let longest = causes.iter().map(|share| name(share).chars().count()).max().unwrap_or(0);
    let names = longest.clamp(12, style.width() / 2 - 6);
    out.push_str(&format!("{}    {}\n", at(0), why::due(spike)));
    for share in &causes {
        let name = text::short(&name(share), names);
        let took = text::tenth_us(share.ns);
        let line =
            format!("{}  {} {name:<names$} {took:>12}", at(share.begin_ns), share.longest.kind.letter());
        let detail = why::details(share, Sign::Plain);
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
        out.push_str(&format!("{:>14}  {name:<names$} {:>12}\n", "", text::tenth_us(more_ns)));
    }
    let unexplained = why::unexplained(spike, Sign::Plain).unwrap_or_default();
    let paint = if spike.much_unexplained { ResultPaint::Unsure } else { ResultPaint::Plain };
    let (runs, rest) =
        (format!("{}    {}", at(spike.latency_ns), why::over(spike)), format!("unexplained {unexplained}"));
    let fits = runs.chars().count() + 3 + rest.chars().count() <= style.width();
    let between = if fits { "   ".to_string() } else { format!("\n{:NAMES$}", "") };
    out.push_str(&format!("{runs}{between}{}\n", style.paint(paint, &rest)));
    if let Some(detail) = &spike.unexplained_detail {
        within(out, "unexplained: ", &text::clean(detail), paint, style);
    } else if spike.much_unexplained {
        within(out, "", "more than a tenth of this spike is unexplained", paint, style);
    }
    for line in why::siblings(spike, Sign::Plain) {
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
    format!("{:>13}", text::tenth_us(ns))
}

/// A detail that does not fit beside a cause stands under its name.
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
