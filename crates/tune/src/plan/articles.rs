// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the articles that users start from would set on this machine, and where and why the plan differs.
//!
//! Four texts: on the Jetson Orin (12 CPUs, 8-11 isolated), a guide to real-time kernels, one on LinuxCNC's latency
//! (a formula over N physical cores), and the paper on interrupt isolation. Where a text names CPUs of its own machine,
//! the plan's stand here, so that what is compared is what it does with them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::choose::Choice;
use super::facts::Facts;
use super::line::NEVER;
use super::{Action, Intent, Kind, Profile, Skipped};

/// What one article would set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Article {
    /// Which article.
    pub article: String,
    /// What it sets, and what becomes of it here.
    pub settings: Vec<Theirs>,
}

/// One thing that an article sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Theirs {
    /// What it sets.
    pub setting: String,
    /// Whether the plan does the same.
    pub here: Here,
    /// What the plan has instead, or why it has nothing; empty where it does the same.
    pub why: String,
}

/// What becomes of it in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Here {
    /// The same.
    Same,
    /// Something else to the same end.
    Other,
    /// Nothing.
    LeftOut,
}

/// What the plan is made of, to look things up in.
struct Ours<'a> {
    facts: &'a Facts<'a>,
    intent: &'a Intent,
    actions: &'a [Action],
    skipped: &'a [Skipped],
}

/// What each article would set here.
pub(super) fn articles(
    facts: &Facts,
    intent: &Intent,
    choice: &Choice,
    actions: &[Action],
    skipped: &[Skipped],
) -> Vec<Article> {
    let ours = Ours { facts, intent, actions, skipped };
    let (isolated, housekeeping) = (&choice.isolated, &choice.housekeeping);
    if isolated.is_empty() {
        return vec![guide(&ours)];
    }
    let orin = [
        ours.boot("isolcpus", &format!("managed_irq,domain,{isolated}")),
        ours.boot("irqaffinity", &housekeeping.to_string()),
        ours.boot("kthread_cpus", &housekeeping.to_string()),
        ours.boot("nohz_full", &isolated.to_string()),
        ours.boot("rcu_nocbs", &isolated.to_string()),
        ours.boot("rcu_nocb_poll", ""),
        no_throttling(&ours),
        ours.runtime(
            "nvpmodel -m 0, jetson_clocks",
            Kind::Governor,
            "the governor and the lowest frequency of the isolated CPUs; the power mode is the board's",
        ),
    ];
    vec![
        Article { article: "Is PREEMPT_RT enough? Jetson Orin".to_string(), settings: orin.to_vec() },
        guide(&ours),
        linuxcnc(&ours, facts.cores.len() as u32),
        Article {
            article: "Deterministic sub-0.5 us response by interrupt isolation (paper)".to_string(),
            settings: vec![Theirs {
                setting: "a kernel of its own that keeps interrupts away while the owner runs".to_string(),
                here: Here::LeftOut,
                why: "no setting does it; build it with isolator kernel build, and measure with and without"
                    .to_string(),
            }],
        },
    ]
}

fn guide(ours: &Ours) -> Article {
    let settings = vec![
        ours.runtime(
            "limits.d: @audio rtprio 95, memlock unlimited",
            Kind::Limits,
            "the same for the group realtime, up to 98: watchdogs keep 99",
        ),
        ours.runtime(
            "cpupower frequency-set -g performance, on all CPUs",
            Kind::Governor,
            "the same governor, on isolated CPUs alone where any are: the others may save power",
        ),
        Theirs {
            setting: "C-states off in the firmware".to_string(),
            here: if ours.has(Kind::PmQos) { Here::Other } else { Here::LeftOut },
            why: "a latency limit for each real-time CPU while the machine runs, where it has idle states: it can be taken back"
                .to_string(),
        },
    ];
    Article { article: "A guide to real-time kernels".to_string(), settings }
}

fn no_throttling(ours: &Ours) -> Theirs {
    let since = if ours.facts.at_least(6, 12) {
        "since Linux 6.12 it throttles nothing but switches the admission of SCHED_DEADLINE off; the fair server took its place"
    } else {
        "the default leaves 95 %, and saves the machine from a loop that runs away"
    };
    Theirs {
        setting: "kernel.sched_rt_runtime_us=-1".to_string(),
        here: Here::LeftOut,
        why: since.to_string(),
    }
}

/// The article's formula, N being the number of physical cores.
fn linuxcnc(ours: &Ours, cores: u32) -> Article {
    let low = format!("0-{}", (cores / 2).saturating_sub(1));
    let high = format!("{}-{cores}", cores / 2);
    let last = ours.facts.machine.possible.iter().max().unwrap_or_default();
    let lists = |name: &str, list: &str| {
        let mut one = ours.boot(name, list);
        if cores > last && list.ends_with(&format!("-{cores}")) {
            let effect =
                if name == "rcu_nocbs" { "the kernel takes all CPUs instead" } else { "the kernel drops it" };
            one.why = format!("cpu {cores} does not exist, so {effect}; {}", one.why);
        } else if one.here == Here::Other {
            one.why = format!("a formula over numbers does not know which CPUs share a core; {}", one.why);
        }
        one
    };
    let mut settings = vec![
        lists("isolcpus", &high),
        lists("nohz_full", &high),
        lists("rcu_nocbs", &high),
        ours.boot("rcu_nocb_poll", ""),
        lists("irqaffinity", &low),
        lists("kthread_cpus", &low),
        ours.boot("skew_tick", "1"),
    ];
    for token in [
        "nohz=on",
        "nosmt=force",
        "nosoftlockup",
        "nowatchdog",
        "intel_pstate=disable",
        "amd_pstate=disable",
        "idle=poll",
        "cpufreq.off=1",
        "cpuidle.off=1",
        "intel_idle.max_cstate=1",
        "amd_idle.max_cstate=1",
    ] {
        let (name, value) = token.split_once('=').unwrap_or((token, ""));
        settings.push(ours.boot(name, value));
    }
    let migration = ours.value_of("/proc/sys/kernel/timer_migration");
    settings.push(Theirs {
        setting: "kernel.timer_migration=0".to_string(),
        here: match migration {
            Some("0") => Here::Same,
            Some(_) => Here::Other,
            None => Here::LeftOut,
        },
        why: match migration {
            Some("0") => String::new(),
            Some(_) => "1: timers that others start leave a CPU that polls".to_string(),
            None => "it matters with nohz_full only: without it a loop's timer fires where the loop runs"
                .to_string(),
        },
    });
    settings.push(no_throttling(ours));
    Article { article: format!("Latency tuning for LinuxCNC, with N = {cores} cores"), settings }
}

impl Ours<'_> {
    fn has(&self, kind: Kind) -> bool {
        self.actions.iter().any(|action| action.kind == kind)
    }

    fn value_of(&self, target: &str) -> Option<&str> {
        self.actions.iter().find(|action| action.target == target).map(|action| action.value.as_str())
    }

    /// Something that is set while the machine runs.
    fn runtime(&self, setting: &str, kind: Kind, why: &str) -> Theirs {
        let (here, why) = if self.has(kind) {
            (Here::Other, why)
        } else {
            (Here::LeftOut, "this machine, or this profile, has no use for it")
        };
        Theirs { setting: setting.to_string(), here, why: why.to_string() }
    }

    /// A boot parameter.
    fn boot(&self, name: &str, value: &str) -> Theirs {
        let setting = if value.is_empty() { name.to_string() } else { format!("{name}={value}") };
        let boot =
            self.actions.iter().find(|action| action.kind == Kind::BootParameter && action.target == name);
        let (here, why) = match boot {
            Some(action) if action.value == value => (Here::Same, String::new()),
            Some(action) => (Here::Other, format!("{name}={}", action.value)),
            None => self.left_out(name),
        };
        Theirs { setting, here, why }
    }

    fn left_out(&self, name: &str) -> (Here, String) {
        if let Some(skipped) = self.skipped.iter().find(|skipped| skipped.what == name) {
            return (Here::LeftOut, skipped.reason.clone());
        }
        if let Some((_, why)) = NEVER.iter().find(|(never, _)| *never == name) {
            return (Here::LeftOut, why.to_string());
        }
        match name {
            "nohz_full" if self.intent.profile == Profile::Periodic => (
                Here::LeftOut,
                "it is for loops that never sleep: a periodic one pays for it at each wakeup".to_string(),
            ),
            "rcu_nocb_poll" => (
                Here::LeftOut,
                "the housekeeping CPUs have no core to spare for it, or callbacks are not offloaded"
                    .to_string(),
            ),
            "nosmt" => (
                Here::Other,
                "the siblings of isolated CPUs stay idle, and the other cores keep theirs; --nosmt does it"
                    .to_string(),
            ),
            "nosoftlockup" | "nowatchdog" => {
                (Here::Other, "kernel.watchdog_cpumask and nmi_watchdog, while the machine runs".to_string())
            }
            "intel_idle.max_cstate" => (
                Here::Other,
                "a latency limit per CPU, while the machine runs; boot limits all CPUs".to_string(),
            ),
            _ => (Here::LeftOut, "no rule asks for it".to_string()),
        }
    }
}
