// SPDX-License-Identifier: MIT OR Apache-2.0
//! A load's work, and whether that was a load at all.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Utilisation;
use crate::work::Worked;

/// The work of a load between its verified begin and its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Did")]
pub struct LoadOutcome {
    /// In one line: `stress-ng: 1,706 cpu operations; 0.98 of 1 housekeeping CPUs busy for 20.0 s`.
    pub words: String,
    /// How long it loaded, in seconds.
    pub seconds: f64,
    /// CPU time it used, in CPUs: 1.5 is one and a half CPUs all the time.
    pub cpus_busy: f64,
    /// The GPU's utilisation, for a GPU load whose driver reports it.
    pub gpu: Option<Utilisation>,
    /// Its own counts by name, `read_bytes` or `vm_cpu_ms` for example; from its start on, preparations
    /// included.
    pub counts: BTreeMap<String, u64>,
    /// Why it did not load the machine from then to the end, and the row is tainted; absent: it did.
    #[serde(rename = "not_loaded", with = "not_loaded")]
    #[schemars(with = "Option<String>")]
    pub loaded: Result<(), String>,
    /// Its violations: each taints the row.
    pub strays: Vec<String>,
}

/// The failure alone: JSON knows no `Result`.
mod not_loaded {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(loaded: &Result<(), String>, to: S) -> Result<S::Ok, S::Error> {
        loaded.as_ref().err().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Result<(), String>, D::Error> {
        Ok(Option::deserialize(from)?.map_or(Ok(()), Err))
    }
}

impl LoadOutcome {
    /// The work of the idle load.
    pub(crate) fn nothing() -> LoadOutcome {
        LoadOutcome { loaded: Ok(()), ..LoadOutcome::unknown("nothing ran".to_string()) }
    }

    /// Nothing is known but why.
    pub(crate) fn unknown(why: String) -> LoadOutcome {
        let (words, loaded) = (why.clone(), Err(why));
        let (counts, strays) = (BTreeMap::new(), Vec::new());
        LoadOutcome { words, seconds: 0.0, cpus_busy: 0.0, gpu: None, counts, loaded, strays }
    }
}

/// The supervisor's messages to the control thread, a line of JSON each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum SupervisorEvent {
    /// Everything was started.
    Started,
    /// It could not start, and is gone.
    Failed(String),
    /// It really loads from now on.
    Loading,
    /// It ended by itself.
    Ended(String),
    /// The answer to the control thread's question: how it worked so far.
    Worked(Worked),
    /// It was ended, and is gone.
    Did(LoadOutcome),
}

/// The measurements of a load, for [`judge`].
#[derive(Debug, Clone, Default)]
pub(crate) struct MeasuredLoad {
    /// Seconds for which it loaded; `None` where it never began to.
    pub seconds: Option<f64>,
    /// CPU seconds it used in that time.
    pub used_s: f64,
    /// CPU seconds that the housekeeping CPUs idled in that time.
    pub idle_s: f64,
    /// Whether they must hardly idle.
    pub saturates: bool,
    /// How it ended by itself.
    pub ended: Option<String>,
    /// The kind of work that it did not do.
    pub lacks: Option<String>,
    /// How it worked, second by second.
    pub worked: Worked,
}

/// Whether that was a load.
pub(crate) fn judge(measured: &MeasuredLoad) -> Result<(), String> {
    if let Some(how) = &measured.ended {
        return Err(how.clone());
    }
    if let Some(lacks) = &measured.lacks {
        return Err(format!("it did not load: {lacks}"));
    }
    if measured.seconds.is_none() {
        return Err("it did not begin to load before it was stopped".to_string());
    }
    if measured.used_s == 0.0 {
        return Err("it used no CPU time".to_string());
    }
    if let Some(why) = measured.worked.stood_still_since(&Worked::default(), measured.worked.seconds) {
        return Err(why);
    }
    if measured.saturates && measured.used_s < measured.idle_s {
        let (used, idle) = (measured.used_s, measured.idle_s);
        return Err(format!("the housekeeping CPUs idled longer ({idle:.1} s) than it ran ({used:.1} s)"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> MeasuredLoad {
        MeasuredLoad {
            seconds: Some(2.0),
            used_s: 1.9,
            idle_s: 0.1,
            saturates: true,
            ..MeasuredLoad::default()
        }
    }

    #[test]
    fn a_load_that_ran_all_the_time_loaded() {
        assert_eq!(judge(&busy()), Ok(()));
    }

    #[test]
    fn a_load_that_others_leave_little_time_still_loads() {
        assert_eq!(judge(&MeasuredLoad { used_s: 0.3, idle_s: 0.0, ..busy() }), Ok(()));
    }

    #[test]
    fn whatever_died_or_did_nothing_did_not_load() {
        let cases = [
            (MeasuredLoad { ended: Some("fio ended after 0.1 s".into()), ..busy() }, "fio ended"),
            (MeasuredLoad { seconds: None, ..busy() }, "did not begin"),
            (MeasuredLoad { lacks: Some("no read bytes".into()), ..busy() }, "no read bytes"),
            (MeasuredLoad { used_s: 0.0, saturates: false, ..busy() }, "no CPU time"),
            (MeasuredLoad { used_s: 0.2, idle_s: 1.8, ..busy() }, "idled longer"),
            (
                MeasuredLoad { worked: Worked { seconds: 9.0, still_s: 2.0, why: None }, ..busy() },
                "stood still for 2.0 of 9.0 s",
            ),
        ];
        for (measured, why) in cases {
            let verdict = judge(&measured).unwrap_err();
            assert!(verdict.contains(why), "{verdict}");
        }
    }

    #[test]
    fn a_load_that_need_not_saturate_may_leave_its_cpus_idle() {
        assert_eq!(judge(&MeasuredLoad { used_s: 0.2, idle_s: 1.8, saturates: false, ..busy() }), Ok(()));
    }
}
