// SPDX-License-Identifier: MIT OR Apache-2.0
//! The texts on causes for the terminal and the page: names, groups and bars, from the crate `why`.

use std::collections::BTreeMap;

use evidence::Bundle;
use evidence::cause::{Cause, CauseKind, CauseShare, ChainLink, KernelContext, Owner, Sender, shares};
use evidence::kind::RowKind;
use machine::quantity::{Say, Share, Sign, Time};
use serde::Serialize;
use why::{CauseName, CauseTotal, ExplainedSpike, Question, TOP, WhyDocument, timeline};

use crate::runs::{self, ShownRun};
use crate::text;

#[cfg(test)]
mod tests;

/// Causes of one spike that are listed; the shortest others are joined.
const CAUSES: usize = 16;

/// Groups of spikes with one cause that a page draws for each run.
const DRAWN: usize = 3;

/// Stretches of a bar that are drawn.
const STRETCHES: usize = 400;

/// Causes in a page's table.
const SUMMED: usize = 20;

/// `kernel thread kworker/3:1H`.
pub(crate) fn named(kind: CauseKind, name: &str) -> String {
    text::clean(&kind.named(name))
}

/// The same with its time, in a line of several.
pub fn brief(cause: &Cause) -> String {
    let name = named(cause.kind, &cause.name);
    match cause.duration_ns {
        Some(ns) => format!("{name} {}", text::page(Time::part(ns))),
        None => name,
    }
}

/// The same in a table, where a suspect is to be told from a cause.
pub(crate) fn summed(sum: &CauseTotal) -> String {
    let name = named(sum.kind, &sum.name);
    if sum.suspect { format!("suspect: {name}") } else { name }
}

/// The details of one occurrence: `woken by irq 45`, ``sent by cpu 0 `echo` (pid 4211) in
/// text_poke_bp_batch``, `with 0.9 us of entry and exit` where that is a good part of it.
pub(crate) fn detail(cause: &Cause, sign: Sign) -> String {
    let detail = cause.detail.as_deref().map(text::clean);
    let sent = cause.sender.as_ref().map(|sender| sent(sender, &cause.name));
    // What is nothing else says so by its name.
    let took = cause.duration_ns.unwrap_or(0);
    let worth = |ns: &u64| ns.saturating_mul(10) >= took && *ns < took;
    let edges = cause
        .entry_exit_ns
        .filter(worth)
        .map(|ns| format!("with {} of entry and exit", Time::part(ns).write(sign)));
    let held = cause.owner.as_ref().filter(|owner| owner.name != cause.name).map(held);
    let inside = cause.function.as_ref().map(|function| {
        let how = match cause.kind {
            CauseKind::Lock => "asked for in",
            CauseKind::Wait => "called in",
            _ => "in",
        };
        format!("{how} {}", text::clean(function))
    });
    // Its own function first: after the chain it would read as the chain's last thread's.
    let mut parts = vec![detail, inside, held];
    parts.extend(cause.chain.iter().map(|link| Some(link_of_chain(link, sign))));
    parts.extend([sent, edges]);
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// `held by logger (thread 9070) in servo!flush_log`.
fn held(owner: &Owner) -> String {
    let function = owner.function.as_ref().map(|function| format!(" in {}", text::clean(function)));
    format!("held by {} (thread {}){}", text::clean(&owner.name), owner.tid, function.unwrap_or_default())
}

/// `logger waited 6,512.0 us for clock_nanosleep`.
fn link_of_chain(link: &ChainLink, sign: Sign) -> String {
    let (who, name, us) =
        (text::clean(&link.thread.name), text::clean(&link.name), Time::part(link.duration_ns).write(sign));
    let owner = link.owner.as_ref().filter(|_| link.kind == CauseKind::Lock);
    let by = owner.map(|owner| format!(" {}", held(owner))).unwrap_or_default();
    match link.kind {
        CauseKind::Thread => format!("{who} waited {us} for its CPU, which {name} had"),
        CauseKind::IdleExit => format!("{who} waited {us} for its CPU to leave idle"),
        kind @ (CauseKind::Throttled | CauseKind::Stopped) => {
            format!("{who} was {} for {us}", named(kind, &name))
        }
        kind => format!("{who} waited {us} for {}{by}", named(kind, &name).trim_start_matches("wait ")),
    }
}

pub(crate) fn sent(sender: &Sender, name: &str) -> String {
    let mut words = Vec::new();
    let interrupted = sender.context.filter(|context| *context != KernelContext::Task);
    words.extend(interrupted.map(|context| format!("{} on", context.named())));
    words.extend(sender.cpu.map(|cpu| format!("cpu {cpu}")));
    words.extend(sender.comm.as_ref().map(|comm| format!("`{}`", text::clean(comm))));
    words.extend(sender.pid.map(|pid| format!("(pid {pid})")));
    words.extend(sender.call_site.as_ref().map(|site| format!("in {}", text::clean(site))));
    let function = sender.function.as_ref().filter(|function| !name.contains(function.as_str()));
    words.extend(function.map(|function| format!("to run {}", text::clean(function))));
    if words.is_empty() { String::new() } else { format!("sent by {}", words.join(" ")) }
}

/// As the begin of a sentence.
fn capital(sentence: String) -> String {
    sentence.replacen("the chance", "The chance", 1)
}

/// The chance of a cause that no spike had yet, in a sentence.
pub(crate) fn unseen(document: &WhyDocument) -> Option<String> {
    let chance = document.next_cause_unseen?;
    let once = match chance {
        0.0 => "each cause was seen more than once".to_string(),
        _ => format!("{:.0} % of the named spikes have a cause that was seen once", 100.0 * chance),
    };
    let about = if chance > 0.0 { format!("about {:.0} %", 100.0 * chance) } else { "small".to_string() };
    Some(format!("the chance that the next spike has a cause not seen yet is {about}: {once}"))
}

/// `3.6 us (0.9 %)`.
pub(crate) fn unexplained(spike: &ExplainedSpike, sign: Sign) -> Option<String> {
    let ns = spike.unexplained_ns?;
    let share = Share::of_time(ns, spike.latency_ns).percent();
    Some(format!("{} ({share:.1} %)", Time::part(ns).write(sign)))
}

/// Where and when: `cpu 3 · load storage · 14:03:22.118204511`; of a program's loop with its row:
/// `response · cpu 1 · load idle`.
pub(crate) fn place(spike: &ExplainedSpike) -> String {
    let time = spike.wall_time.as_deref().and_then(|time| time.split_once('T'));
    let time =
        time.map(|(_, time)| format!(" · {}", text::clean(time.trim_end_matches('Z')))).unwrap_or_default();
    let missed = match spike.missed {
        0 => String::new(),
        missed => format!(" · {} missed", text::plural(missed as usize, "period")),
    };
    let row = match RowKind::of(&spike.probe).is_of_program() {
        true => format!("{} · ", text::clean(&spike.probe)),
        false => String::new(),
    };
    format!("{row}cpu {} · load {}{time}{missed}", spike.cpu, text::short(&spike.load, 24))
}

/// The event that the program waited for: the first word of a spike's timeline.
pub(crate) fn due(spike: &ExplainedSpike) -> &'static str {
    if spike.period_ns.is_some() { "timer due" } else { "program stops" }
}

/// The last word of a spike's timeline: a late wakeup ends as the thread has its CPU, a late cycle with its
/// work.
pub(crate) fn over(spike: &ExplainedSpike) -> &'static str {
    RowKind::of(&spike.probe).ends()
}

/// The timed causes of a spike that are shown, in the order of their begin, and how many shorter ones of how
/// much time are not. Where they are too many to be shown one by one, those of one name are joined.
pub(crate) fn shown(spike: &ExplainedSpike) -> (Vec<CauseShare<'_>>, usize, u64) {
    let timed = spike.causes.iter().filter(|cause| !cause.is_suspect());
    let mut all: Vec<CauseShare> = timed.flat_map(|cause| shares(std::slice::from_ref(cause))).collect();
    if all.len() > CAUSES {
        all = shares(&spike.causes);
    }
    let left = all.split_off(all.len().min(CAUSES));
    all.sort_by_key(|share| share.begin_ns);
    let left_ns = left.iter().fold(0u64, |sum, share| sum.saturating_add(share.ns));
    (all, left.len(), left_ns)
}

/// The details of causes of one name: those of the longest, and how many they are.
pub(crate) fn details(share: &CauseShare<'_>, sign: Sign) -> String {
    let parts = (share.parts > 1).then(|| format!("in {} parts", text::count(share.parts as u64)));
    let words = [Some(detail(share.longest, sign)), parts].into_iter().flatten();
    words.filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", ")
}

/// The suspects of a spike in a line: `irq 45 nvme0q3 (12), softirq BLOCK (9)`.
pub(crate) fn suspects(spike: &ExplainedSpike) -> String {
    let suspects = spike.causes.iter().filter(|cause| cause.is_suspect());
    let one = |cause: &Cause| match cause.count {
        Some(count) => format!("{} ({})", named(cause.kind, &cause.name), text::count(count)),
        None => named(cause.kind, &cause.name),
    };
    suspects.map(one).collect::<Vec<_>>().join(", ")
}

/// The work of siblings, a line for each.
pub(crate) fn siblings(spike: &ExplainedSpike, sign: Sign) -> Vec<String> {
    let mut lines: Vec<(u32, Vec<String>)> = Vec::new();
    for one in &spike.siblings {
        let took = one.cause.duration_ns.map(|ns| format!(" {}", Time::part(ns).write(sign)));
        let took = took.unwrap_or_default();
        let words = format!("{}{took}", named(one.cause.kind, &one.cause.name));
        match lines.iter_mut().find(|(cpu, _)| *cpu == one.cpu) {
            Some((_, list)) => list.push(words),
            None => lines.push((one.cpu, vec![words])),
        }
    }
    lines
        .into_iter()
        .map(|(cpu, mut list)| {
            let more = list.len().saturating_sub(6);
            list.truncate(6);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("sibling cpu {cpu} meanwhile: {}{more}", list.join(", "))
        })
        .collect()
}

/// Spikes that have the same cause.
pub(crate) struct CauseGroup<'a> {
    pub mostly: Option<&'a CauseName>,
    pub spikes: Vec<&'a ExplainedSpike>,
    pub advice: Vec<&'a str>,
}

/// The shown spikes, by their main cause; the group of the longest first.
pub(crate) fn groups(document: &WhyDocument) -> Vec<CauseGroup<'_>> {
    let mut groups: Vec<CauseGroup> = Vec::new();
    for spike in &document.spikes {
        let mostly = spike.mostly.as_ref();
        let place = groups.iter().position(|group| group.mostly == mostly).unwrap_or_else(|| {
            groups.push(CauseGroup { mostly, spikes: Vec::new(), advice: Vec::new() });
            groups.len() - 1
        });
        let group = &mut groups[place];
        group.spikes.push(spike);
        for line in &spike.advice {
            if !group.advice.contains(&line.as_str()) {
                group.advice.push(line);
            }
        }
    }
    groups
}

/// The title of a group.
pub(crate) fn title(group: &CauseGroup, document: &WhyDocument) -> String {
    let Some(mostly) = group.mostly else {
        let why = match document.collector {
            Some(_) if group.spikes.iter().any(|spike| !spike.causes.is_empty()) => "Suspects only",
            Some(_) => "Nothing was seen of these",
            None => "Without causes",
        };
        return why.to_string();
    };
    let all = document
        .by_cause
        .iter()
        .find(|sum| sum.kind == mostly.kind && sum.name == mostly.name && !sum.suspect);
    let of = all.map_or(group.spikes.len() as u64, |sum| sum.mostly);
    let name = match mostly.kind {
        CauseKind::Unexplained => "No recorded event".to_string(),
        kind => upper(&named(kind, &mostly.name)),
    };
    format!(
        "{name} took the longest part of {} {}",
        text::count(of),
        if of == 1 { "spike" } else { "spikes" }
    )
}

fn upper(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// How it was collected, in a sentence, and what that left out.
pub(crate) fn collected(document: &WhyDocument) -> String {
    let seen = text::count(document.spikes_seen);
    let listed = match document.spikes_listed {
        listed if listed == document.spikes_seen => String::new(),
        listed => format!(", {} of them listed", text::count(listed)),
    };
    let by = match document.collector {
        Some(collector) => format!("; causes collected by {}", collector.name()),
        None => "; no causes collected".to_string(),
    };
    let lost = match document.lost_events {
        0 => String::new(),
        lost => format!("; {} events were lost, so causes may be missing", text::count(lost)),
    };
    let one = if document.spikes_seen == 1 { "spike" } else { "spikes" };
    format!("{seen} {one}{listed}{by}{lost}")
}

/// The causes of one run's spikes, for its page.
#[derive(Debug, Serialize)]
pub(crate) struct WhySection {
    pub run: String,
    pub words: String,
    pub notes: Vec<String>,
    pub sums: Vec<SumRow>,
    /// Causes that the table leaves out.
    pub more: usize,
    pub groups: Vec<Pictured>,
}

/// A line of the table of causes.
#[derive(Debug, Serialize)]
pub(crate) struct SumRow {
    pub colour: usize,
    pub name: String,
    pub cells: Vec<String>,
}

/// Spikes with one cause: the longest of them, and what to do.
#[derive(Debug, Serialize)]
pub(crate) struct Pictured {
    pub title: String,
    pub spike: Picture,
    pub advice: Vec<String>,
}

/// The longest spikes of one run, a line each that folds out.
#[derive(Debug, Serialize)]
pub(crate) struct SpikeList {
    pub run: String,
    /// How many there were, and how many of them are listed.
    pub words: String,
    pub spikes: Vec<Picture>,
}

/// One spike, drawn.
#[derive(Debug, Serialize)]
pub(crate) struct Picture {
    pub length: String,
    pub place: String,
    /// The cause that took most of it, and how much of it in per cent.
    pub mostly: String,
    pub colour: usize,
    pub share: f64,
    pub due: &'static str,
    pub description: String,
    pub bars: Vec<Stretches>,
    pub lines: Vec<LegendLine>,
    pub unexplained: Option<String>,
    pub much: bool,
    /// The evidence about the unexplained part.
    pub detail: Option<String>,
    pub suspects: String,
    pub siblings: Vec<String>,
}

/// The stretches of one colour, as a path in a box of 10,000 by 1.
#[derive(Debug, Serialize)]
pub(crate) struct Stretches {
    pub colour: usize,
    pub path: String,
}

/// A cause under the bar.
#[derive(Debug, Serialize)]
pub(crate) struct LegendLine {
    pub colour: usize,
    pub at: String,
    pub name: String,
    pub took: String,
    pub detail: String,
}

/// The causes and the longest spikes of `bundle`; each is left out where there is none.
pub(crate) fn of(run: &ShownRun, several: bool) -> (Option<WhySection>, Option<SpikeList>) {
    let document = &WhyDocument::of(run.bundle, &Question { top: TOP, ..Question::default() });
    let mark = run.mark(several);
    let spikes: Vec<_> = document.spikes.iter().map(|spike| picture(spike, run.virtual_time)).collect();
    let list = (!spikes.is_empty()).then(|| SpikeList {
        run: mark.clone(),
        words: listed(run.bundle, document),
        spikes,
    });
    let section = section(mark, document, run.virtual_time);
    (Some(section).filter(|section| !section.sums.is_empty()), list)
}

/// Why a run has no causes, or no spikes.
pub(crate) fn none_of(bundle: &Bundle) -> Vec<String> {
    let document = WhyDocument::of(bundle, &Question { top: 0, ..Question::default() });
    let notes = if document.by_cause.is_empty() { document.notes } else { Vec::new() };
    notes.iter().map(|note| text::clean(note)).collect()
}

/// How many spikes there were, and how many of them the page has.
fn listed(bundle: &Bundle, document: &WhyDocument) -> String {
    let above =
        bundle.manifest.asked.threshold_ns.map(|ns| format!(" above {}", text::page(Time::round(ns))));
    let above = above.unwrap_or_default();
    let (seen, drawn) = (document.spikes_seen, document.spikes.len() as u64);
    match seen > drawn {
        false => format!("All {}{above}, the longest first.", text::plural(seen as usize, "spike")),
        true => format!(
            "The longest {drawn} of {} spikes{above}; the bundle lists {}.",
            text::count(seen),
            text::count(document.spikes_listed)
        ),
    }
}

fn section(run: String, document: &WhyDocument, virtual_time: bool) -> WhySection {
    let drawn = |group: &&CauseGroup| group.spikes.iter().any(|spike| !spike.causes.is_empty());
    let all = groups(document);
    let pictured = all.iter().filter(drawn).take(DRAWN).map(|group| Pictured {
        title: title(group, document),
        spike: picture(group.spikes[0], virtual_time),
        advice: group.advice.iter().map(|line| text::clean(line)).collect(),
    });
    let sum = |sum: &CauseTotal| {
        let timed = |ns| if sum.suspect { "–".to_string() } else { text::tenth(ns) };
        SumRow {
            colour: sum.kind.colour(),
            name: summed(sum),
            cells: vec![
                timed(sum.total_ns),
                timed(sum.max_ns),
                text::count(sum.spikes),
                if sum.suspect { "–".to_string() } else { text::count(sum.mostly) },
                text::count(sum.count),
            ],
        }
    };
    let mut notes: Vec<_> = document.notes.iter().map(|note| text::clean(note)).collect();
    notes.extend(document.could_not_see.iter().map(|what| format!("Not seen: {}", text::clean(what))));
    if !document.not_tried.is_empty() {
        notes.push(format!("Not tried at the start: {}", text::clean(&document.not_tried.join(", "))));
    }
    WhySection {
        run,
        words: [Some(collected(document)), unseen(document).map(capital)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(". "),
        notes,
        sums: document.by_cause.iter().take(SUMMED).map(sum).collect(),
        more: document.by_cause.len().saturating_sub(SUMMED),
        groups: pictured.collect(),
    }
}

fn picture(spike: &ExplainedSpike, virtual_time: bool) -> Picture {
    let (causes, more, more_ns) = shown(spike);
    let line = |share: &CauseShare| LegendLine {
        colour: share.longest.kind.colour(),
        at: text::tenth(share.begin_ns),
        name: named(share.longest.kind, &share.longest.name),
        took: text::tenth(share.ns),
        detail: details(share, Sign::Page),
    };
    let mut lines: Vec<_> = causes.iter().map(line).collect();
    if more > 0 {
        lines.push(LegendLine {
            colour: 7,
            at: String::new(),
            name: format!("{more} shorter ones"),
            took: text::tenth(more_ns),
            detail: String::new(),
        });
    }
    let words = lines
        .iter()
        .map(|line| [&line.name, &line.took, Sign::Page.us()].join(" "))
        .collect::<Vec<_>>()
        .join(", ");
    let (mostly, colour, share) = mostly(spike);
    Picture {
        length: runs::latency(spike.latency_ns, virtual_time),
        place: place(spike),
        mostly,
        colour,
        share,
        due: due(spike),
        description: words,
        bars: stretches(spike),
        lines,
        unexplained: unexplained(spike, Sign::Page),
        much: spike.much_unexplained,
        detail: spike.unexplained_detail.as_deref().map(text::clean),
        suspects: suspects(spike),
        siblings: siblings(spike, Sign::Page),
    }
}

/// The cause that took most of a spike, its colour, and its share in per cent.
fn mostly(spike: &ExplainedSpike) -> (String, usize, f64) {
    let Some(mostly) = &spike.mostly else {
        let words = if spike.causes.is_empty() { "no cause collected" } else { "suspects only" };
        return (words.to_string(), 7, 0.0);
    };
    let same = |cause: &&Cause| cause.kind == mostly.kind && cause.name == mostly.name;
    let took = match mostly.kind {
        CauseKind::Unexplained => spike.unexplained_ns.unwrap_or(0),
        _ => spike
            .causes
            .iter()
            .filter(same)
            .filter_map(|cause| cause.duration_ns)
            .fold(0, u64::saturating_add),
    };
    let name = match mostly.kind {
        CauseKind::Unexplained => "no recorded event".to_string(),
        kind => named(kind, &mostly.name),
    };
    (name, mostly.kind.colour(), Share::of_time(took, spike.latency_ns).percent().round())
}

/// The bar: a path for each colour. What is too short to be seen is drawn all the same.
fn stretches(spike: &ExplainedSpike) -> Vec<Stretches> {
    use std::fmt::Write;
    let at = |ns: u64| (ns as f64 / spike.latency_ns.max(1) as f64 * 10_000.0).round();
    let mut paths: BTreeMap<usize, String> = BTreeMap::new();
    for one in timeline(spike.latency_ns, &spike.causes).iter().take(STRETCHES) {
        let Some(cause) = one.cause.and_then(|place| spike.causes.get(place)) else { continue };
        let width = (at(one.to_ns) - at(one.from_ns)).max(25.0);
        let from = at(one.from_ns).min(9_975.0);
        let path = paths.entry(cause.kind.colour()).or_default();
        let _ = write!(path, "M{from} 0h{width}v1h-{width}z");
    }
    paths.into_iter().map(|(colour, path)| Stretches { colour, path }).collect()
}

/// A bar of `width` letters: what had the CPU for the most of each stretch.
pub(crate) fn bar(spike: &ExplainedSpike, width: usize) -> String {
    let stretches = timeline(spike.latency_ns, &spike.causes);
    let at = |column: usize| (spike.latency_ns as u128 * column as u128 / width as u128) as u64;
    let at_column = |column: usize| {
        let (from, to) = (at(column), at(column + 1));
        let within = |from_ns: u64, to_ns: u64| to_ns.min(to).saturating_sub(from_ns.max(from));
        stretches.iter().max_by_key(|one| within(one.from_ns, one.to_ns)).and_then(|one| one.cause)
    };
    let mut columns: Vec<_> = (0..width).map(at_column).collect();
    // What is too short for a column of its own takes one from what has several.
    for one in stretches
        .iter()
        .filter(|one| one.cause.is_some() && !columns.contains(&one.cause))
        .collect::<Vec<_>>()
    {
        let column = (one.from_ns as u128 * width as u128 / u128::from(spike.latency_ns.max(1))) as usize;
        let owner = columns.get(column).copied().flatten();
        if owner.is_none() || columns.iter().filter(|other| **other == owner).count() > 1 {
            columns[column.min(width - 1)] = one.cause;
        }
    }
    let letter_of = |cause: &Option<usize>| {
        cause.and_then(|place| spike.causes.get(place)).map_or('.', |cause| cause.kind.letter())
    };
    columns.iter().map(letter_of).collect()
}
