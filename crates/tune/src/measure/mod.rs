// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effect of each setting of a plan on this machine: one at a time, without it and with it by turns.
//!
//! A machine drifts (heat, other tenants, the hour), so that one long run without and one long run with a
//! setting compare two hours rather than two settings. Here both stand next to each other in every round, the
//! order alternating, and what is judged is the difference within a round. Of those differences the estimate
//! is Hodges and Lehmann's (the median of their pairwise means), and its interval that of Wilcoxon's signed
//! ranks, exact, at 95 % or just above: neither asks for a normal distribution, and one round with a peak
//! does not carry the result.
//!
//! Limits: settings that help only together show nothing alone; rare peaks need longer rounds than people
//! wait for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::action::{Action, ActionKind, Disruption, Skipped};
use crate::plan::Plan;

/// Version of the document.
pub const SCHEMA_VERSION: u32 = 1;

/// Fewest rounds from which an interval at 95 % can be made.
pub const FEWEST_ROUNDS: usize = 6;

/// The measured effects of a plan's settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Measured")]
pub struct MeasuredPlan {
    /// Version of this document.
    pub schema_version: u32,
    /// The plan's digest.
    pub plan: String,
    /// The CPU that was measured.
    pub cpu: u32,
    /// Rounds of each setting, each without and with it.
    pub rounds: u32,
    /// Length of each measurement in seconds.
    pub seconds: f64,
    /// Each setting, in the plan's order.
    #[serde(rename = "knobs")]
    pub settings: Vec<MeasuredSetting>,
    /// The rows that were not measured, with reasons.
    pub skipped: Vec<Skipped>,
    /// The bundle to compare with a run after the reboot, if there is one.
    pub before: Option<String>,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MeasuredKnob")]
pub struct MeasuredSetting {
    /// Its name.
    pub name: String,
    /// Its effect on each figure.
    pub effects: Vec<SettingEffect>,
    /// Whether any figure showed an effect.
    pub does: Does,
    /// Its cost, from the plan: a change without effect need not be kept.
    pub cost: String,
}

/// The effect of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Does {
    /// Some figure gets better, and none worse.
    Helps,
    /// Some figure gets worse.
    Harms,
    /// No figure shows a difference.
    Nothing,
}

/// The effect of one setting on one figure: with it less without it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Effect")]
pub struct SettingEffect {
    /// The figure: `wakeup-p99`, for example.
    pub figure: String,
    /// The figure's unit.
    pub unit: String,
    /// Median without the setting.
    pub without: f64,
    /// Median with it.
    pub with: f64,
    /// The estimate of the difference; below zero is better.
    pub difference: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// The confidence level of the interval.
    pub confidence: f64,
}

impl SettingEffect {
    /// The effect on a figure whose values stand side by side, round by round; `None` of fewer than six
    /// rounds.
    pub fn of(figure: &str, unit: &str, without: &[f64], with: &[f64]) -> Option<SettingEffect> {
        let differences: Vec<f64> = without.iter().zip(with).map(|(without, with)| with - without).collect();
        let count = differences.len();
        if count < FEWEST_ROUNDS || without.len() != with.len() {
            return None;
        }
        let mut means = Vec::with_capacity(count * (count + 1) / 2);
        for (at, one) in differences.iter().enumerate() {
            means.extend(differences[at..].iter().map(|other| (one + other) / 2.0));
        }
        means.sort_by(f64::total_cmp);
        let (cut, confidence) = cut(count);
        Some(SettingEffect {
            figure: figure.to_string(),
            unit: unit.to_string(),
            without: median(without),
            with: median(with),
            difference: median(&means),
            low: means[cut],
            high: means[means.len() - 1 - cut],
            confidence,
        })
    }

    /// Whether the interval leaves zero out, and on which side it lies.
    pub fn does(&self) -> Does {
        match () {
            () if self.high < 0.0 => Does::Helps,
            () if self.low > 0.0 => Does::Harms,
            () => Does::Nothing,
        }
    }
}

/// How many of the smallest pairwise means lie outside of the interval at each end, and what the interval
/// then covers.
fn cut(count: usize) -> (usize, f64) {
    // How many of the 2^count ways to sign the ranks give each sum.
    let most = count * (count + 1) / 2;
    let mut ways = vec![0.0f64; most + 1];
    ways[0] = 1.0;
    for rank in 1..=count {
        for sum in (rank..=most).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    let all = 2f64.powi(count as i32);
    let (mut below, mut cut) = (0.0, 0);
    while cut < most && (below + ways[cut]) / all <= 0.025 {
        below += ways[cut];
        cut += 1;
    }
    // The cut-th smallest mean is the end where `cut` sums are rejected.
    (cut.saturating_sub(1), 1.0 - 2.0 * below / all)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

impl MeasuredSetting {
    /// A setting with its effects.
    pub fn new(setting: &PlanSetting, effects: Vec<SettingEffect>) -> Self {
        let has = |does| effects.iter().any(|effect| effect.does() == does);
        let does = match () {
            () if has(Does::Harms) => Does::Harms,
            () if has(Does::Helps) => Does::Helps,
            () => Does::Nothing,
        };
        MeasuredSetting { name: setting.name.clone(), effects, does, cost: setting.cost().to_string() }
    }
}

/// Actions that are turned on and off together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanSetting {
    /// Its name: the kind, and the file's name where there are several of a kind.
    pub name: String,
    /// Its actions.
    pub actions: Vec<Action>,
}

impl PlanSetting {
    fn cost(&self) -> &str {
        self.actions.first().map(|action| action.cost.as_str()).unwrap_or_default()
    }
}

/// The settings of a plan that can be turned on and off while the machine runs, and its other actions.
pub fn settings(plan: &Plan) -> (Vec<PlanSetting>, Vec<Skipped>) {
    let mut settings: Vec<PlanSetting> = Vec::new();
    let mut skipped = Vec::new();
    for action in &plan.actions {
        if let Some(why) = cannot(action) {
            skipped.push(Skipped { what: action.target.clone(), reason: why.to_string() });
            continue;
        }
        let name = name(action);
        match settings.iter_mut().find(|setting| setting.name == name) {
            Some(setting) => setting.actions.push(action.clone()),
            None => settings.push(PlanSetting { name, actions: vec![action.clone()] }),
        }
    }
    (settings, skipped)
}

fn cannot(action: &Action) -> Option<&'static str> {
    match action.kind {
        _ if action.disruption == Disruption::Reboot => {
            Some("it needs a reboot: compare a run before with one after")
        }
        ActionKind::RealTimeSlice | ActionKind::ManagerAffinity | ActionKind::Service => {
            Some("it is a unit, in force when its service starts again")
        }
        ActionKind::Limits => Some("it gives rights and sets no latency"),
        ActionKind::Slice | ActionKind::Partition => {
            Some("it cannot be toggled: the toggle itself moves programs, which disturbs the measurement")
        }
        ActionKind::IrqBalance => {
            Some("it cannot be toggled: the toggle itself restarts a service, which disturbs the measurement")
        }
        _ => None,
    }
}

/// The name of actions that belong together: interrupts with their default, the files of one setting on
/// several CPUs.
fn name(action: &Action) -> String {
    let file = action.target.rsplit('/').next().unwrap_or_default();
    match action.kind {
        ActionKind::IrqDefault | ActionKind::Irqs => "interrupts".to_string(),
        ActionKind::DeviceIrqs => format!("interrupts of {}", action.target),
        ActionKind::KernelThreads => "kernel threads".to_string(),
        ActionKind::Workqueues => "workqueues".to_string(),
        ActionKind::Governor | ActionKind::Frequency => "frequency".to_string(),
        ActionKind::PmQos => "idle states".to_string(),
        ActionKind::FairServer => "fair server".to_string(),
        ActionKind::Memory if action.target.contains("hugepage") => "huge pages".to_string(),
        ActionKind::Memory if action.target.contains("/ksm/") => "page sharing".to_string(),
        ActionKind::MachineCheck => "machine check".to_string(),
        ActionKind::Links => "links to cards".to_string(),
        _ => file.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_wilcoxons() {
        // Critical values of the signed-rank statistic, two-sided 0.05, as in any table: 6: 0, 7: 2, 8: 3,
        // 10: 8, 20: 52.
        for (count, critical) in [(6, 0), (7, 2), (8, 3), (10, 8), (12, 13), (20, 52)] {
            let (cut, confidence) = cut(count);
            assert_eq!(cut, critical, "{count}");
            assert!((0.95..1.0).contains(&confidence), "{count}: {confidence}");
        }
        assert!((cut(6).1 - 0.96875).abs() < 1e-12);
    }

    #[test]
    fn a_shift_is_found_and_a_single_peak_is_not_one() {
        let without = [50.0, 52.0, 49.0, 51.0, 50.0, 53.0, 48.0, 50.0];
        let shifted: Vec<f64> =
            without.iter().zip([9.0, 11.0, 10.0, 10.0, 9.5, 10.5, 10.0, 10.0]).map(|(a, b)| a - b).collect();
        let effect = SettingEffect::of("wakeup-p99", "us", &without, &shifted).unwrap();
        assert_eq!(effect.does(), Does::Helps);
        assert!((effect.difference + 10.0).abs() < 0.3 && effect.low <= -10.0 && effect.high >= -10.0);
        let mut peak = without;
        peak[3] += 4000.0;
        let effect = SettingEffect::of("wakeup-p99", "us", &without, &peak).unwrap();
        assert_eq!(effect.does(), Does::Nothing);
        assert!(effect.difference.abs() < 1e-9, "{effect:?}");
        assert_eq!(SettingEffect::of("wakeup-p99", "us", &shifted, &without).unwrap().does(), Does::Harms);
    }

    #[test]
    fn too_few_rounds_have_no_interval() {
        assert_eq!(SettingEffect::of("x", "us", &[1.0; 5], &[2.0; 5]), None);
        assert_eq!(SettingEffect::of("x", "us", &[1.0; 6], &[2.0; 7]), None);
        assert!(SettingEffect::of("x", "us", &[1.0; 6], &[2.0; 6]).is_some());
    }

    #[test]
    fn a_setting_harms_if_any_figure_gets_worse() {
        let effect = |low, high| SettingEffect {
            figure: "x".into(),
            unit: "us".into(),
            without: 0.0,
            with: 0.0,
            difference: (low + high) / 2.0,
            low,
            high,
            confidence: 0.95,
        };
        let setting = PlanSetting { name: "x".into(), actions: Vec::new() };
        for (effects, does) in [
            (vec![effect(-2.0, -1.0), effect(-1.0, 1.0)], Does::Helps),
            (vec![effect(-2.0, -1.0), effect(1.0, 2.0)], Does::Harms),
            (vec![effect(-1.0, 0.0)], Does::Nothing),
            (Vec::new(), Does::Nothing),
        ] {
            assert_eq!(MeasuredSetting::new(&setting, effects).does, does);
        }
    }
}
