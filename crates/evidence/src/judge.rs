// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options by which runs are judged: limit, claim, allowance and accepted taints.
//!
//! They come from the one who judges. Without them a run is judged by those that it was asked with; a gate
//! judges its candidate by those of its baselines, and boots that are joined by those of the present run.
//! Otherwise a run could pass by asking for less.

use std::collections::BTreeMap;

use crate::Result;
use crate::claim::ClaimPer;
use crate::limit::{LateAllowance, Limits};
use crate::manifest::{Asked, RowEntry, RowKey};
use crate::reader::Bundle;
use crate::verdict::DEFAULT_CLAIM;
use machine::units::exact_us;

/// Options of a judge; what is absent is the run's own.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judge {
    /// Limits of the rows but of those whose kind has a limit of its own.
    pub limit: Option<Limits>,
    /// Limits of single rows, where no other limit is given.
    pub rows: BTreeMap<RowKey, u64>,
    /// The rate to stay below.
    pub claim: Option<f64>,
    /// The unit that it counts.
    pub claim_per: Option<ClaimPer>,
    /// Late cycles that are allowed; within: none.
    pub allow: Option<Option<LateAllowance>>,
    /// Codes of the taints without effect on the verdict.
    pub accept: Option<Vec<String>>,
}

impl Judge {
    /// As the strictest of these runs was asked; nothing without one.
    pub fn strictest<'a>(runs: impl IntoIterator<Item = &'a Bundle>) -> Judge {
        let runs = runs.into_iter().map(Judge::of);
        runs.reduce(Judge::and).unwrap_or_default()
    }

    /// As a run was asked.
    fn of(run: &Bundle) -> Judge {
        let asked = &run.manifest.asked;
        let limit = |row: &crate::Row| Some((row.entry.key.clone(), row.entry.limit_ns?));
        Judge {
            limit: None,
            rows: run.rows.iter().filter_map(limit).collect(),
            claim: Some(asked.claim.unwrap_or(DEFAULT_CLAIM)),
            claim_per: Some(asked.claim_per.unwrap_or_default()),
            allow: Some(run.manifest.allowed()),
            accept: Some(asked.accept.clone()),
        }
    }

    fn and(mut self, other: Judge) -> Judge {
        for (key, limit_ns) in other.rows {
            let own = self.rows.entry(key).or_insert(limit_ns);
            *own = limit_ns.min(*own);
        }
        self.claim = self.claim.zip(other.claim).map(|(one, other)| one.min(other));
        let is_same = self.claim_per == other.claim_per;
        self.claim_per = self.claim_per.map(|per| if is_same { per } else { ClaimPer::Cycle });
        let is_same = self.allow == other.allow;
        self.allow = self.allow.map(|allowed| allowed.filter(|_| is_same));
        let others = other.accept.unwrap_or_default();
        self.accept =
            self.accept.map(|codes| codes.into_iter().filter(|code| others.contains(code)).collect());
        self
    }

    /// Lets a run be judged by these options; what it was asked and is not judged by, a line each.
    pub fn judge(&self, run: &mut Bundle) -> Result<Vec<String>> {
        let asked = run.manifest.asked.clone();
        let mut changes = self.limits(run)?;
        let new = &mut run.manifest.asked;
        new.claim = self.claim.or(new.claim);
        new.claim_per = self.claim_per.or(new.claim_per);
        if let Some(allow) = &self.allow {
            new.allow = allow.map(|allowed| allowed.to_string());
        }
        if let Some(accept) = &self.accept {
            new.accept.clone_from(accept);
            run.manifest.taints.iter_mut().for_each(|taint| taint.accepted = accept.contains(&taint.code));
        }
        changes.extend(others(&asked, &run.manifest.asked));
        Ok(changes)
    }

    /// Gives each row its limit; a line for each other one that rows had.
    fn limits(&self, run: &mut Bundle) -> Result<Vec<String>> {
        let own = |entry: &RowEntry| {
            let RowKey { period_ns, .. } = entry.key;
            match (&self.limit, entry.key.kind().own_limit_ns(period_ns.unwrap_or(0))) {
                // Another tool's evidence has no limit yet.
                (Some(_), Some(own_ns)) => Ok(entry.limit_ns.or(period_ns.map(|_| own_ns))),
                (Some(limit), None) => limit.ns(period_ns).map(Some),
                (None, _) => Ok(self.rows.get(&entry.key).copied().or(entry.limit_ns)),
            }
        };
        if let Some(limit) = &self.limit {
            run.manifest.asked.limit = Some(limit.to_string());
        }
        let mut changes = Vec::new();
        let rows = run.rows.iter_mut().map(|row| &mut row.entry);
        for entry in rows.chain(&mut run.manifest.rows) {
            let is = own(entry)?;
            let was = std::mem::replace(&mut entry.limit_ns, is);
            if let (Some(was), Some(is)) = (was, entry.limit_ns.filter(|is| Some(*is) != was)) {
                let line = format!("limit: judged by {}, asked was {}", exact_us(is), exact_us(was));
                changes.extend(Some(line).filter(|line| !changes.contains(line)));
            }
        }
        Ok(changes)
    }
}

/// The options besides limits by which a run is judged now, and was not asked with, a line each.
fn others(asked: &Asked, now: &Asked) -> Vec<String> {
    let none = |text: Option<String>| text.unwrap_or_else(|| "none".to_string());
    let claim = |asked: &Asked| asked.claim.unwrap_or(DEFAULT_CLAIM).to_string();
    let per = |asked: &Asked| {
        let per = asked.claim_per.unwrap_or_default();
        ClaimPer::NAMES.iter().find(|name| name.1 == per).map_or("", |name| name.0).to_string()
    };
    let accept = |asked: &Asked| none(Some(asked.accept.join(",")).filter(|codes| !codes.is_empty()));
    let each = [
        ("claim", claim(asked), claim(now)),
        ("claim per", per(asked), per(now)),
        ("allowance", none(asked.allow.clone()), none(now.allow.clone())),
        ("accepted taints", accept(asked), accept(now)),
    ];
    let differ = each.iter().filter(|(_, was, is)| was != is);
    differ.map(|(what, was, is)| format!("{what}: judged by {is}, asked was {was}")).collect()
}
