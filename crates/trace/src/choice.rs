// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loops that a user wants to have followed.

use std::num::NonZeroU64;
use std::str::FromStr;

use crate::boundary::CycleBounds;

/// The selection of a process' loops.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoopChoice {
    /// Threads by name or number; empty: the real-time threads, or all where there is none.
    pub threads: Vec<String>,
    /// The period, where the user knows it.
    pub period: Option<NonZeroU64>,
    /// Begin and end of cycles, if the user named them: the loops are those of the threads that reach them.
    pub bounds: Option<CycleBounds>,
    /// Whether the program was just started, and may not have made its threads yet.
    pub is_starting: bool,
    /// The source of events of a program that runs.
    pub source: SourceChoice,
}

/// A choice of the source of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SourceChoice {
    /// The BPF part, or else tracefs.
    #[default]
    Auto,
    /// The BPF part, or an error.
    Bpf,
    /// Trace events by tracefs, or an error.
    Tracefs,
}

impl SourceChoice {
    /// All of them.
    pub const ALL: [SourceChoice; 3] = [SourceChoice::Auto, SourceChoice::Bpf, SourceChoice::Tracefs];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            SourceChoice::Auto => "auto",
            SourceChoice::Bpf => "bpf",
            SourceChoice::Tracefs => "tracefs",
        }
    }
}

impl FromStr for SourceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<SourceChoice, String> {
        let found = SourceChoice::ALL.into_iter().find(|choice| choice.name() == text);
        found.ok_or_else(|| {
            format!("there is no such source; give {}", SourceChoice::ALL.map(SourceChoice::name).join(", "))
        })
    }
}
