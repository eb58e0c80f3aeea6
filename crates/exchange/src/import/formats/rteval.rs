// SPDX-License-Identifier: MIT OR Apache-2.0
//! `summary.xml` of rteval.
//!
//! Of its measurements, cyclictest and timerlat have a `core` element for each CPU with statistics and a
//! histogram in microseconds; others become rows that were not run. rteval leaves a measurement's statistics
//! out where a latency was beyond the buckets. It adds timerlat's samples of interrupt, thread and user space
//! up in one histogram, so that a core has up to three for each cycle.

use machine::units::whole_us;
use roxmltree::{Document, Node, ParsingOptions};

use super::cyclictest;
use crate::import::column::kernel;
use crate::import::scan::prelude::*;

pub(in crate::import) const FORMAT: Description = Description {
    says: &[
        Says::NoLine(Totals, "samples of each core, and the maximum of system"),
        Says::NoLine(Worse, "measured_latency of the abort report, and the maximum of system"),
        Says::NoLine(Stops, "stoptrace_invoked, stoptrace_report and abort_report"),
        Says::NoLine(Losses, "samples above the histogram's sum, and a measurement without statistics"),
        Says::NoLine(Aborts, "abort_report"),
        Says::NoLine(Doubts, "its report has no place for a doubt"),
    ],
    ..Description::of(
        "rteval XML",
        "rteval",
        Told::Text(|text| text.starts_with('<') && text.contains("<rteval")),
        Digits::OfCutTimes,
        read,
    )
};

/// No report has more elements and texts than this.
const MOST_NODES: u32 = 1_000_000;

/// No report is nested deeper than this; the parser calls itself for each level.
const DEEPEST: usize = 64;

/// Measurements with a histogram of each core, and the probe that measures the same.
const MEASURED: [(&str, RowKind); 2] = [("cyclictest", RowKind::Wakeup), ("timerlat", RowKind::TimerlatUser)];

/// Elements of a report that are no measurement.
const OTHERS: [&str; 2] = ["Profile", "sysstat"];

fn read(scan: &mut Scan, found: &mut ImportedFile) -> Result<(), String> {
    let text = scan.text;
    if depth(text) > DEEPEST {
        return Err(format!("its elements are nested more than {DEEPEST} deep"));
    }
    let options = ParsingOptions { nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|why| format!("it is not a complete XML document ({why})"))?;
    let root = document.root_element();
    if root.tag_name().name() != "rteval" {
        return Err(format!("it is XML of '{}', not of rteval", root.tag_name().name()));
    }
    found.manifest.written_by.version = root.attribute("version").map(str::to_string);
    machine(root, found);
    run(root, found);
    let mut measurements = root.descendants().filter(|node| node.has_tag_name("Measurements")).peekable();
    let tools: Vec<Node> = if measurements.peek().is_some() {
        measurements.flat_map(|node| node.descendants()).filter(|node| is_measurement(*node)).collect()
    } else {
        // rteval 2 had its one measurement at the top.
        let is_tool = |node: &Node| MEASURED.iter().any(|tool| node.has_tag_name(tool.0));
        root.children().filter(is_tool).collect()
    };
    for (n, tool) in tools.iter().enumerate() {
        second_run_if(tools[..n].iter().any(|before| before.tag_name() == tool.tag_name()))?;
        measurement(*tool, found)?;
    }
    Ok(())
}

/// Whether a node is the element of a measurement's tool: below `Measurements` or a profile of it.
fn is_measurement(node: Node) -> bool {
    let parent = node.parent().map_or("", |parent| parent.tag_name().name());
    node.is_element()
        && matches!(parent, "Measurements" | "Profile")
        && !OTHERS.contains(&node.tag_name().name())
}

fn measurement(tool: Node, found: &mut ImportedFile) -> Result<(), String> {
    let name = tool.tag_name().name();
    let Some((_, kind)) = MEASURED.into_iter().find(|known| known.0 == name) else {
        found.not_run(name, format!("the report's {name} is not read, only cyclictest and timerlat are"));
        return Ok(());
    };
    let line = tool.attribute("command_line").unwrap_or_default();
    let command = if name == "cyclictest" { cyclictest::SYNTAX.read(line) } else { None };
    found.manifest.written_by.command_line = (!line.is_empty()).then(|| line.to_string());
    if let Some(command) = &command {
        cyclictest::asked(found, command);
        found.skips_missed = true;
    }
    let before = found.columns.len();
    for core in children(tool, "core") {
        let mut column = core_column(core, kind).map_err(|why| format!("{name}: {why}"))?;
        // cyclictest -h gives every thread the same period.
        column.period_ns = command.as_ref().and_then(|command| cyclictest::period_ns(command, 0));
        found.columns.push(column);
    }
    if found.columns.len() == before {
        found.not_run(kind.name(), format!("the report has no statistics of {name}: rteval leaves them out where a latency was beyond its buckets"));
    }
    aborted(tool, before, found);
    let worst = child(tool, "system").and_then(|node| value(child(node, "statistics")?, "maximum"));
    let worst = worst.and_then(|max| u64::try_from(thousandths(max)?).ok());
    if let Some(max) = worst {
        found.state_max_of_all(kind, max.div_ceil(1_000));
    }
    if name == "timerlat" && found.columns.len() > before {
        found
            .lacks("timerlat: the samples of interrupt, thread and user space are added up in one histogram");
    }
    Ok(())
}

fn core_column(core: Node, kind: RowKind) -> Result<ImportedSeries, String> {
    let cpu = core.attribute("id").and_then(|id| id.parse().ok()).ok_or("a core has no number")?;
    let bad = |what: &str| format!("core {cpu} has no {what} that can be read");
    let statistics = child(core, "statistics").ok_or_else(|| bad("statistics"))?;
    let samples = value(statistics, "samples").and_then(|text| text.parse::<u64>().ok());
    let samples = samples.ok_or_else(|| bad("number of samples"))?;
    let mut column = ImportedSeries::new(kind, cpu, 1_000);
    if samples == 0 {
        return Ok(column);
    }
    let figure = |name: &str| {
        let node = child(statistics, name).ok_or_else(|| bad(name))?;
        if node.attribute("unit") != Some("us") {
            return Err(bad(&format!("{name} in us")));
        }
        let figure = node.text().and_then(|text| u64::try_from(thousandths(text.trim())?).ok());
        figure.ok_or_else(|| bad(name))
    };
    column.min = Some(figure("minimum")? / 1_000);
    column.max = Some(figure("maximum")?.div_ceil(1_000));
    column.avg = Some(figure("mean")? as f64 / 1e3);
    for bucket in child(core, "histogram").into_iter().flat_map(|node| children(node, "bucket")) {
        let number = |name: &str| bucket.attribute(name).and_then(|text| text.parse::<u64>().ok());
        let pair = number("index").zip(number("value"));
        column.buckets.push(pair.ok_or_else(|| bad("bucket"))?);
    }
    column.buckets.sort_unstable();
    second_run_if(column.buckets.windows(2).any(|pair| pair[0].0 == pair[1].0))?;
    // A latency beyond the buckets is in the maximum alone.
    let beyond = column.buckets.last().is_none_or(|last| column.max.is_some_and(|max| max > last.0));
    column.overflow = samples.saturating_sub(column.listed()).max(u64::from(beyond));
    Ok(column)
}

/// A latency at which rteval ended the measurement counts as the worst, although no core is named.
fn aborted(tool: Node, first: usize, found: &mut ImportedFile) {
    if child(tool, "stoptrace_invoked").is_some() || child(tool, "stoptrace_report").is_some() {
        found.note("rteval's timerlat stopped at the threshold it was given");
    }
    let Some(report) = child(tool, "abort_report").and_then(|node| child(node, "breaktrace")) else { return };
    let measured = report.attribute("measured_latency").and_then(|text| text.parse::<u64>().ok());
    let Some(us) = measured else {
        found.lacks("rteval was ended by a latency that the report does not state");
        return;
    };
    found.note(format!("rteval was ended by a latency of {}", whole_us(us)));
    let worst = found.columns[first..].iter_mut().max_by_key(|column| column.max);
    if let Some(column) = worst.filter(|column| column.max.is_none_or(|max| max < us)) {
        let cpu = column.cpu;
        (column.max, column.overflow) = (Some(us), column.overflow.saturating_add(1));
        found.note(format!(
            "no core has the latency that ended rteval: it is counted on cpu {cpu}, the worst one"
        ));
    }
}

/// The machine, in the places of rteval 2 and 3.
fn machine(root: Node, found: &mut ImportedFile) {
    let uname = root.descendants().find(|node| node.has_tag_name("uname"));
    let field = |name: &str| uname.and_then(|node| value(node, name)).map(str::to_string);
    let is_rt = uname.and_then(|node| child(node, "kernel")?.attribute("is_RT")) == Some("1");
    let machine = &mut found.manifest.machine;
    (machine.hostname, machine.architecture) = (field("node"), field("arch"));
    machine.kernel = kernel(field("kernel"), None, is_rt);
}

/// How long it ran, and under which loads.
fn run(root: Node, found: &mut ImportedFile) {
    if let Some(info) = child(root, "run_info") {
        let number = |name: &str| info.attribute(name).and_then(|text| text.trim().parse::<u64>().ok());
        let seconds = [("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1)]
            .iter()
            .try_fold(0u64, |sum, (name, each)| number(name)?.checked_mul(*each)?.checked_add(sum));
        found.ran_s(seconds);
    }
    let loads = child(root, "loads").into_iter().flat_map(|node| children(node, "command_line"));
    let ran = loads.filter(|load| load.attribute("run").is_none_or(|run| run == "1"));
    let names = ran.filter_map(|load| load.attribute("name")).collect::<Vec<_>>();
    if !names.is_empty() {
        found.note(format!("rteval ran the loads {}", names.join(", ")));
        found.load = Some(names.join("+"));
    }
}

fn children<'a, 'i>(node: Node<'a, 'i>, name: &str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |node| node.has_tag_name(name))
}

fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    children(node, name).next()
}

fn value<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    child(node, name)?.text().map(str::trim).filter(|text| !text.is_empty())
}

/// How deep the elements of a text are nested, at most: every `<` may open one.
fn depth(text: &str) -> usize {
    let (mut open, mut deepest) = (0usize, 0usize);
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find(['>', '<']).unwrap_or(rest.len());
        let tag = &rest[..end];
        match tag.as_bytes().first() {
            Some(b'/') => open = open.saturating_sub(1),
            Some(b'?' | b'!') | None => {}
            Some(_) if tag.ends_with('/') => {}
            Some(_) => open += 1,
        }
        deepest = deepest.max(open);
    }
    deepest
}
