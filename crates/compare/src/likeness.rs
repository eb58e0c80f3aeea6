// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the same was asked of two runs, and how their machines differ.
//!
//! Both questions are put to the JSON of the manifest, field by field, so that a field which is added later
//! counts without a change here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use machine::CpuSet;
use machine::snapshot::Cpu;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use evidence::manifest::Manifest;

/// Fields of what was asked that do not make runs unlike: they judge what was measured, or say how much of
/// it is kept, and do not change it.
const JUDGE_ONLY: [&str; 10] = [
    "limit",
    "threshold_ns",
    "claim",
    "claim_per",
    "allow",
    "until",
    "accept",
    "flight",
    "loads_if_available",
    "use",
];

/// A field in which two runs differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The field, named as in the manifest.
    pub field: String,
    /// Its value in the first run; absent if the run does not state it.
    pub before: Option<String>,
    /// Its value in the second run; absent if the run does not state it.
    pub after: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The manifest has times as nanoseconds.
        let (field, is_time) = match self.field.strip_suffix("_ns") {
            Some(field) => (field, true),
            None => (self.field.as_str(), false),
        };
        let stated = |value: &Option<String>| match value {
            Some(value) if is_time => with_units(value),
            Some(value) => value.clone(),
            None => "not stated".to_string(),
        };
        write!(out, "{field} {} before but {} after", stated(&self.before), stated(&self.after))
    }
}

/// A list of numbers of nanoseconds, as `25us,1ms`.
fn with_units(list: &str) -> String {
    let one = |item: &str| match item.parse() {
        Ok(ns) => format!("{:?}", Duration::from_nanos(ns)).replace('µ', "u"),
        Err(_) => item.to_string(),
    };
    list.split(',').map(one).collect::<Vec<_>>().join(",")
}

/// Where what was asked differs. A field that one run states and the other does not is a difference.
pub fn asked(before: &Manifest, after: &Manifest) -> Vec<Difference> {
    differ(&asked_fields(before), &asked_fields(after))
}

/// Where the machines, or the versions of the program that measured, differ. What holds for several CPUs is
/// said once.
pub fn machine(before: &Manifest, after: &Manifest) -> Vec<Difference> {
    let mut differences = differ(&machine_fields(before), &machine_fields(after));
    let now: BTreeMap<u32, _> = after.machine.cpus.iter().map(|cpu| (cpu.id, cpu)).collect();
    let mut by_cpu = BTreeMap::<_, Vec<u32>>::new();
    for was in &before.machine.cpus {
        let Some(is) = now.get(&was.id) else { continue };
        for difference in differ(&fields(was), &fields(*is)) {
            let same = (difference.field, difference.before, difference.after);
            by_cpu.entry(same).or_default().push(was.id);
        }
    }
    differences.extend(by_cpu.into_iter().map(|((field, before, after), cpus)| Difference {
        field: format!("{field} of cpu {}", cpus.into_iter().collect::<CpuSet>()),
        before,
        after,
    }));
    differences
}

/// Where two boots of one machine differ: in what each boot decides anew first, then as [`machine()`] says.
pub fn boots(before: &Manifest, after: &Manifest) -> Vec<Difference> {
    let mut differences = differ(&before.by_boot, &after.by_boot);
    differences.extend(machine(before, after));
    differences
}

/// Whether two runs are of one machine with one kernel and one boot line.
pub fn is_same_system(before: &Manifest, after: &Manifest) -> bool {
    let system = |manifest: &Manifest| {
        let machine = &manifest.machine;
        let kernel = &machine.kernel;
        let of_kernel = [&kernel.release, &kernel.version, &kernel.command_line, &kernel.config_sha256];
        [&machine.hostname, &machine.cpu_model].into_iter().chain(of_kernel).cloned().collect::<Vec<_>>()
    };
    system(before) == system(after)
}

/// Where the options differ by which each run was judged, a line each: such verdicts do not compare.
pub(crate) fn judged(before: &Manifest, after: &Manifest) -> Vec<String> {
    const JUDGES: [&str; 5] = ["limit", "claim", "claim_per", "allow", "accept"];
    let of = |manifest: &Manifest| {
        let mut fields = fields(&manifest.asked);
        fields.retain(|field, _| JUDGES.contains(&field.as_str()));
        fields
    };
    let unlike = differ(&of(before), &of(after)).into_iter();
    unlike.map(|one| format!("judged by other options: {one}")).collect()
}

/// For other tools' evidence: names what neither run states and is therefore only taken as the same.
pub(crate) fn unstated(before: &Manifest, after: &Manifest) -> Option<String> {
    let imported = |manifest: &Manifest| manifest.written_by.program != "isolator";
    if !imported(before) && !imported(after) {
        return None;
    }
    let stated = |manifest| asked_fields(manifest).into_keys().collect::<BTreeSet<_>>();
    let either = &stated(before) | &stated(after);
    let all = serde_json::to_value(&before.asked).unwrap_or_default();
    let all = all.as_object().into_iter().flat_map(|map| map.keys());
    let neither = all.filter(|field| !JUDGE_ONLY.contains(&field.as_str()) && !either.contains(*field));
    let neither = neither.map(String::as_str).collect::<Vec<_>>();
    (!neither.is_empty()).then(|| {
        format!("neither run states {}: taken as the same, which nothing proves", neither.join(", "))
    })
}

fn asked_fields(manifest: &Manifest) -> BTreeMap<String, String> {
    let mut asked = manifest.asked.clone();
    // The order of measurement changes no row.
    asked.probes.sort();
    asked.loads.sort();
    asked.periods_ns.sort_unstable();
    let mut fields = fields(&asked);
    fields.retain(|field, _| !JUDGE_ONLY.contains(&field.as_str()));
    fields.insert("program".to_string(), manifest.written_by.program.clone());
    fields
}

fn machine_fields(manifest: &Manifest) -> BTreeMap<String, String> {
    let mut machine = manifest.machine.clone();
    let cpus = std::mem::take(&mut machine.cpus).iter().map(|cpu: &Cpu| cpu.id).collect::<CpuSet>();
    machine.unread.clear();
    // Another one at each boot.
    machine.boot_id = None;
    let mut fields = fields(&machine);
    let written_by = &manifest.written_by;
    let also = [
        ("cpus", Some(cpus.to_string()).filter(|cpus| !cpus.is_empty())),
        ("program version", written_by.version.clone()),
        ("program commit", written_by.commit.clone()),
    ];
    fields.extend(also.into_iter().filter_map(|(field, value)| Some((field.to_string(), value?))));
    fields
}

fn differ(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<Difference> {
    let names = before.keys().chain(after.keys()).collect::<BTreeSet<_>>();
    let pairs = names.into_iter().map(|name| (name, before.get(name), after.get(name)));
    let unlike = pairs.filter(|(_, before, after)| before != after);
    unlike
        .map(|(field, before, after)| Difference {
            field: field.clone(),
            before: before.cloned(),
            after: after.cloned(),
        })
        .collect()
}

/// Everything that `value` states, as `path.to.field` and text; what is null or empty is not stated.
fn fields(value: &impl Serialize) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    walk("", &serde_json::to_value(value).unwrap_or_default(), &mut out);
    out
}

fn walk(path: &str, value: &Value, out: &mut BTreeMap<String, String>) {
    let text = match value {
        Value::Object(map) => {
            let dot = if path.is_empty() { "" } else { "." };
            return map.iter().for_each(|(key, value)| walk(&format!("{path}{dot}{key}"), value, out));
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            return items.iter().enumerate().for_each(|(n, item)| walk(&format!("{path}[{n}]"), item, out));
        }
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        _ => plain(value),
    };
    if !text.is_empty() {
        out.insert(path.to_string(), text);
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
