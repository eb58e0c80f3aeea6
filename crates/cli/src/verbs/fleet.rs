// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator fleet`: many machines' bundles, stored and asked; measured and tuned in [`ansible`].

mod ansible;

use ::fleet::{QUERIES, Query};
use evidence::Judge;

use crate::args::{FleetQueryArgs, FleetReportArgs, FleetStoreArgs, FleetVerb};
use crate::next;
use crate::outcome::{Document, Outcome, VerbResult};
use crate::output::{note, print};

/// Bundles that could not be read, listed; the store keeps them all.
const LISTED: usize = 10;

pub fn run(verb: FleetVerb) -> VerbResult {
    match verb {
        FleetVerb::Prove(args) => ansible::prove(args),
        FleetVerb::Plan(args) => ansible::plan(args),
        FleetVerb::Apply(args) => ansible::apply(args),
        FleetVerb::Verify(args) => ansible::verify(args),
        FleetVerb::Rollback(args) => ansible::rollback(args),
        FleetVerb::Store(args) => store(&args),
        FleetVerb::Report(args) => report(&args),
        FleetVerb::Query(args) => query(&args),
    }
}

fn store(args: &FleetStoreArgs) -> VerbResult {
    let judge = args.judge.over(Judge::default())?;
    let stored = ::fleet::store(&args.output, &args.bundles, &judge)?;
    for (path, why) in stored.unread.iter().take(LISTED) {
        note(&format!("isolator: not read: {}: {why}", path.display()));
    }
    if stored.unread.len() > LISTED {
        note(&format!("isolator: not read: and {} more", stored.unread.len() - LISTED));
    }
    let is_empty = stored.added + stored.known == 0;
    if !args.quiet {
        let (added, known, unread) = (stored.added, stored.known, stored.unread.len());
        print(&format!("bundles: {added} added, {known} known already, {unread} not read\n"))?;
        if !is_empty {
            print(&format!("next: isolator fleet report {}\n", next::path(&args.output)))?;
        }
    }
    if is_empty {
        return Err(format!("cannot fill {}: no bundle could be read", args.output.display()).into());
    }
    Ok(Outcome::Done)
}

fn report(args: &FleetReportArgs) -> VerbResult {
    args.out.ready()?;
    let document = ::fleet::report(&args.store)?;
    args.out.json(&document)?;
    args.out.print_text(&report::terminal::fleet(&document, args.out.style()));
    if let Some(output) = &args.output {
        evidence::writer::replace(output, report::fleet(&document)?.as_bytes())?;
        args.out.print_text(&format!("Report: {}", output.display()));
    }
    next::say(next::after_fleet_report(args), &args.out);
    document.ended()
}

fn query(args: &FleetQueryArgs) -> VerbResult {
    let text = match &args.name {
        Some(name) => Query::named(name)?.text(),
        None => QUERIES.iter().map(|query| format!("{:<12} {}\n", query.name, query.about())).collect(),
    };
    print(&text)?;
    Ok(Outcome::Done)
}
