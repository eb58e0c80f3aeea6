// SPDX-License-Identifier: MIT OR Apache-2.0
//! One self-contained page: nothing is fetched, and the same bundles give the same bytes.
//!
//! Its only script is `templates/report.js`, which the page's policy admits by its digest and which has no
//! way to any network. It adds tooltips, rows on and off, and zoom; the page has all figures without it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use compare::Comparison;
use evidence::Bundle;
use evidence::document::ProveDocument;
use evidence::manifest::NotRun;
use evidence::{Error, Result};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Output, State, UndefinedBehavior, Value, escape_formatter};
use serde::Serialize;
use sha2::{Digest, Sha256};
use untrusted::text::screen;

use crate::card::VerdictCard;
use crate::change::{self, ChangeSection};
use crate::chart::maxima::{self, Bars};
use crate::chart::persistence::{self, Pictures};
use crate::chart::responses;
use crate::chart::{LoadStyle, Panels, histogram, jitter, timeline};
use crate::facts::{self, Fact, Grant};
use crate::figures::{self, FigureGroup, TailRow};
use crate::lab::{self, LabSection};
use crate::runs::{Runs, ShownRun};
use crate::taints::{self, TaintGroup};
use crate::text;
use crate::why::{self, SpikeList, WhySection};

/// Lab runs whose outcomes a headline names: they come in whole series.
const MOST_IN_HEADLINE: usize = 3;

/// Everything that the page shows, in its order.
#[derive(Serialize)]
struct BundlePage {
    title: String,
    headline: String,
    several: bool,
    run_count: usize,
    verdicts: Vec<VerdictCard>,
    /// The lab's section, where any run is one of the lab.
    lab: Option<LabSection>,
    /// Whether every run is.
    all_lab: bool,
    /// Whether there is, or should be, a latency in any run.
    latencies: bool,
    /// Whether any latency is in virtual time.
    virtual_time: bool,
    /// The changes, where two runs are compared.
    change: Option<ChangeSection>,
    overlaid: Vec<Panels>,
    loads: Vec<LegendEntry>,
    /// CPUs that rows are of.
    cpus: Vec<u32>,
    maxima: Vec<Bars>,
    rows: Vec<FigureGroup>,
    histograms: Vec<Panels>,
    time: Vec<TimeStrips>,
    jitter: Vec<Panels>,
    persistence: Vec<Pictures>,
    responses: Vec<Pictures>,
    spikes: Vec<SpikeList>,
    why: Vec<WhySection>,
    tails: Vec<TailRow>,
    /// Whether any tail gave an estimate.
    estimated: bool,
    /// The marks of the runs, and the name of each.
    letters: Vec<String>,
    names: BTreeMap<String, String>,
    machine: Vec<Fact>,
    asked: Vec<Fact>,
    granted: Vec<RunGrants>,
    remarks: Vec<Remarks>,
    /// Whether anything at all is missing, or was remarked.
    lacks: bool,
    remarked: bool,
    version: &'static str,
}

/// Strips of one probe over time.
#[derive(Serialize)]
struct TimeStrips {
    #[serde(flatten)]
    panels: Panels,
    y_title: String,
}

/// An entry of the legend.
#[derive(Serialize)]
struct LegendEntry {
    name: String,
    style: LoadStyle,
}

/// The grants of one run.
#[derive(Serialize)]
struct RunGrants {
    run: String,
    threads: Vec<Grant>,
    loads: Vec<Grant>,
}

/// One or several taints that are alike.
#[derive(Serialize)]
struct Tainted {
    code: String,
    accepted: bool,
    place: String,
    reason: String,
    cure: Option<String>,
    /// Each of them, where there are several.
    each: Vec<String>,
}

/// Notes of one run, and its missing data.
#[derive(Serialize)]
struct Remarks {
    run: String,
    taints: Vec<Tainted>,
    notes: Vec<String>,
    not_run: Vec<NotRun>,
    missing: Vec<String>,
}

/// The report of one bundle, or of several side by side, as one HTML page; judges each anew.
pub fn html(bundles: &[Bundle]) -> Result<String> {
    html_of(bundles, &bundles.iter().map(ProveDocument::of).collect::<Vec<_>>())
}

/// As [`html()`], of bundles that were judged already: each with its document.
pub fn html_of(bundles: &[Bundle], documents: &[ProveDocument]) -> Result<String> {
    if bundles.is_empty() {
        return Err(Error::on("make", "a report", "no bundle was given", "name at least one bundle"));
    }
    rendered(page(bundles, documents, None)?)
}

/// The report of a comparison: what changed first, then both runs side by side.
pub fn compared(bundles: &[Bundle; 2], comparison: &Comparison) -> Result<String> {
    let documents = bundles.each_ref().map(ProveDocument::of);
    rendered(page(bundles, &documents, Some(comparison))?)
}

fn rendered(page: BundlePage) -> Result<String> {
    let defect = |e: minijinja::Error| Error::on("make", "the report", e, "report this as a defect");
    environment().and_then(|env| env.get_template("report.html")?.render(Serde(page))).map_err(defect)
}

/// The page's script, as it stands between its tags.
const SCRIPT: &str = include_str!("../templates/report.js");

/// The digest by which the page's policy admits its script.
fn script_digest() -> String {
    BASE64_STANDARD.encode(Sha256::digest(SCRIPT))
}

pub(crate) fn environment() -> std::result::Result<Environment<'static>, minijinja::Error> {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_auto_escape_callback(|_| AutoEscape::Html);
    env.set_formatter(shown);
    env.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    env.add_template("report.html", include_str!("../templates/report.html"))?;
    env.add_template("head.html", include_str!("../templates/head.html"))?;
    env.add_template("charts.html", include_str!("../templates/charts.html"))?;
    env.add_template("card.html", include_str!("../templates/card.html"))?;
    env.add_template("change.html", include_str!("../templates/change.html"))?;
    env.add_template("lab.html", include_str!("../templates/lab.html"))?;
    env.add_template("fleet.html", include_str!("../templates/fleet.html"))?;
    env.add_template("report.css", include_str!("../templates/report.css"))?;
    env.add_global("script", Value::from_safe_string(SCRIPT.to_string()));
    env.add_global("script_digest", script_digest());
    Ok(env)
}

/// Writes a value into the page: markup of our own as it is, text escaped, without what would turn its
/// letters round.
fn shown(out: &mut Output, state: &mut State, value: &Value) -> std::result::Result<(), minijinja::Error> {
    let Some(words) = value.as_str().filter(|_| !value.is_safe()) else {
        return escape_formatter(out, state, value);
    };
    match screen(words, false) {
        Cow::Borrowed(_) => escape_formatter(out, state, value),
        Cow::Owned(screened) => escape_formatter(out, state, &Value::from(screened)),
    }
}

fn page(
    bundles: &[Bundle],
    documents: &[ProveDocument],
    comparison: Option<&Comparison>,
) -> Result<BundlePage> {
    let mut runs = Runs::of(bundles, documents);
    if let (Some(_), [before, after]) = (comparison, &mut runs.all[..]) {
        (before.letter, after.letter) = ("before".to_string(), "after".to_string());
    }
    let several = runs.several();
    let letter = |run: &ShownRun| run.mark(several);
    let verdicts: Vec<_> = runs.all.iter().map(|run| card(run, several)).collect();
    let lab = lab::of(&runs, bundles);
    let all_lab = bundles.iter().all(|bundle| bundle.lab.is_some());
    let change = comparison.map(|comparison| change::of(&runs, comparison));
    let headline = match verdicts.as_slice() {
        [only] => only.words.clone(),
        _ if let Some(change) = &change => change.words.clone(),
        many if many.len() > MOST_IN_HEADLINE && all_lab => lab::headline(&runs),
        all => all
            .iter()
            .map(|card| format!("{}: {}", card.run, lower(&card.words)))
            .collect::<Vec<_>>()
            .join(" — "),
    };
    let (mut persistence, mut responses) = (Vec::new(), Vec::new());
    for kind in &runs.kinds {
        responses.extend(responses::pictures(&runs, kind)?);
        persistence.extend(persistence::pictures(&runs, kind)?);
    }
    let overlaid = runs.kinds.iter().filter(|_| change.is_some());
    let overlaid = overlaid.filter_map(|kind| histogram::overlaid(&runs, kind)).collect();
    let strips = |kind| {
        let panels = timeline::panels(&runs, kind)?;
        Some(TimeStrips { panels, y_title: timeline::title(kind) })
    };
    let (why, spikes): (Vec<_>, Vec<_>) = runs.all.iter().map(|run| why::of(run, several)).unzip();
    let tails = figures::tails(&runs);
    let load = |(place, name): (usize, &String)| LegendEntry {
        name: text::short(name, 40),
        style: LoadStyle::of(place),
    };
    let granted = |run: &ShownRun| RunGrants {
        run: letter(run),
        threads: facts::granted(run.bundle),
        loads: facts::loads(run.bundle),
    };
    let remarks = |run: &ShownRun| Remarks {
        run: letter(run),
        taints: taints::groups(&run.bundle.manifest.taints).iter().map(tainted).collect(),
        notes: [run.document.notes.clone(), why::none_of(run.bundle)].concat(),
        not_run: run.document.not_run.clone(),
        missing: run.bundle.missing.clone(),
    };
    let remarks: Vec<_> = runs.all.iter().map(remarks).collect();
    let host = |bundle: &Bundle| match &bundle.lab {
        Some(lab) => Some(lab.kernel.clone()),
        None => bundle.manifest.machine.hostname.clone(),
    };
    let host = bundles.iter().find_map(host).unwrap_or_else(|| "unknown machine".to_string());
    Ok(BundlePage {
        title: format!("{headline} · {}", text::clean(&host)),
        headline,
        several,
        run_count: runs.all.len(),
        verdicts,
        lab,
        all_lab,
        latencies: !runs.all.iter().all(ShownRun::counts_only),
        virtual_time: runs.kinds.iter().any(|kind| kind.virtual_time),
        change,
        overlaid,
        cpus: runs
            .kinds
            .iter()
            .flat_map(|kind| runs.cpus(kind))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
        loads: runs.loads.iter().enumerate().filter(|(_, name)| runs.measured(name)).map(load).collect(),
        maxima: runs.kinds.iter().map(|kind| maxima::bars(&runs, kind)).collect(),
        rows: figures::rows(&runs),
        histograms: runs.kinds.iter().map(|kind| histogram::panels(&runs, kind)).collect(),
        time: runs.kinds.iter().filter_map(strips).collect(),
        jitter: runs.kinds.iter().filter_map(|kind| jitter::panels(&runs, kind)).collect(),
        persistence,
        responses,
        spikes: spikes.into_iter().flatten().collect(),
        why: why.into_iter().flatten().collect(),
        estimated: tails.iter().any(|tail| !tail.refused),
        tails,
        letters: runs.all.iter().map(letter).collect(),
        names: runs.all.iter().map(|run| (letter(run), text::clean(&run.name))).collect(),
        machine: facts::machine(bundles),
        asked: facts::asked(bundles),
        granted: runs.all.iter().map(granted).collect(),
        lacks: remarks.iter().any(|one| !one.not_run.is_empty() || !one.missing.is_empty()),
        remarked: remarks.iter().any(|one| !one.taints.is_empty() || !one.notes.is_empty()),
        remarks,
        version: env!("CARGO_PKG_VERSION"),
    })
}

/// The card of a run, as its kind has it.
fn card(run: &ShownRun, several: bool) -> VerdictCard {
    let card = figures::verdict(run, several);
    match &run.bundle.lab {
        Some(lab) => lab::card::of(run, lab, card),
        None => card,
    }
}

fn tainted(group: &TaintGroup) -> Tainted {
    Tainted {
        code: text::clean(group.code()),
        accepted: group.accepted(),
        place: group.place(),
        reason: group.reason(),
        cure: group.cure().map(text::clean),
        each: group.each(),
    }
}

/// The sentence as it continues another.
fn lower(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}
