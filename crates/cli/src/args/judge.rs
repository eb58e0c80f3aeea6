// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options by which evidence is judged, in place of those that its run was asked with.

use std::path::Path;

use clap::Args;
use evidence::claim::ClaimPer;
use evidence::limit::Limits;
use evidence::manifest::Asked;
use evidence::weakly_hard::LateAllowance;
use evidence::{Bundle, Judge};

use super::CLAIM;
use crate::values::{allowance, claim_per, limits, rate, taint};

/// Options of a judge.
#[derive(Debug, Clone, Default, Args)]
pub struct JudgeArgs {
    /// Judge by this limit: a time, or a share of the period; for each period its own as
    /// 25us:10us,1ms:100us
    #[arg(long, value_name = "TIME|%", value_parser = limits, allow_hyphen_values = true, help_heading = CLAIM)]
    pub limit: Option<Limits>,
    /// Judge by this rate of late episodes to stay below
    #[arg(hide_short_help = true, long, value_name = "RATE", value_parser = rate, allow_negative_numbers = true, help_heading = CLAIM)]
    pub claim: Option<f64>,
    /// Judge by this count of the claim: episode, cycle, independent
    #[arg(hide_short_help = true, long, value_name = "UNIT", value_parser = claim_per(), hide_possible_values = true, help_heading = CLAIM)]
    pub claim_per: Option<String>,
    /// Late cycles allowed in any K consecutive ones, as 1in10
    #[arg(hide_short_help = true, long, value_name = "MinK", value_parser = allowance, allow_hyphen_values = true, help_heading = CLAIM)]
    pub allow: Option<LateAllowance>,
    /// Taints without effect on the verdict; they are shown all the same
    #[arg(long, value_name = "CODE,…", value_parser = taint(), hide_possible_values = true, value_delimiter = ',', help_heading = CLAIM)]
    pub accept: Vec<String>,
}

impl JudgeArgs {
    /// Whether there is any.
    pub fn is_given(&self) -> bool {
        let JudgeArgs { limit, claim, claim_per, allow, accept } = self;
        limit.is_some() || claim.is_some() || claim_per.is_some() || allow.is_some() || !accept.is_empty()
    }

    /// As they were given, each after a space: the next command judges alike.
    pub fn options(&self) -> String {
        let JudgeArgs { limit, claim, claim_per, allow, accept } = self;
        let accept = Some(accept.join(",")).filter(|codes| !codes.is_empty());
        let given = [
            limit.as_ref().map(|limit| format!(" --limit {limit}")),
            claim.map(|claim| format!(" --claim {claim}")),
            claim_per.as_ref().map(|per| format!(" --claim-per {per}")),
            allow.map(|allow| format!(" --allow {allow}")),
            accept.map(|codes| format!(" --accept {codes}")),
        ];
        given.into_iter().flatten().collect()
    }

    /// A run that these options ask for.
    pub fn asked(&self) -> evidence::Result<Asked> {
        let Judge { limit, claim, allow, accept, .. } = self.over(Judge::default())?;
        let limit = limit.map(|limit| limit.to_string());
        let allow = allow.flatten().map(|allow| allow.to_string());
        Ok(Asked { limit, claim, allow, accept: accept.unwrap_or_default(), ..Asked::default() })
    }

    /// A run, to be judged by these options; its notes say by which it was asked to be.
    pub fn open(&self, path: &Path) -> evidence::Result<Bundle> {
        let mut bundle = Bundle::open(path)?;
        let changes = self.over(Judge::default())?.judge(&mut bundle)?;
        bundle.manifest.notes.extend(changes);
        Ok(bundle)
    }

    /// `judge` with these options over it; an error where a taint is accepted that there is not.
    pub fn over(&self, judge: Judge) -> evidence::Result<Judge> {
        evidence::taint::known(&self.accept)?;
        let per = |name: &String| ClaimPer::NAMES.iter().find(|known| known.0 == *name).map(|known| known.1);
        Ok(Judge {
            limit: self.limit.clone().or(judge.limit),
            claim: self.claim.or(judge.claim),
            claim_per: self.claim_per.as_ref().and_then(per).or(judge.claim_per),
            allow: self.allow.map(Some).or(judge.allow),
            accept: Some(self.accept.clone()).filter(|codes| !codes.is_empty()).or(judge.accept),
            rows: judge.rows,
        })
    }
}
