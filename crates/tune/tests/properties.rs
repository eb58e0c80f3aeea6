// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of every plan, whatever the machine.

use machine::snapshot::{Cpu, Preemption};
use machine::{CpuSet, Snapshot};
use proptest::prelude::*;
use tune::plan::line::NEVER;
use tune::plan::{ActionKind, Intent, MadeFor, Plan, Profile, WantedCpus, plan};

/// A machine with up to 4 nodes of up to 10 cores of up to 4 threads, numbered side by side or one thread of
/// each core after the other, some CPUs offline, of one or two types, and with as much known of it as chance
/// has it.
fn machines() -> impl Strategy<Value = Snapshot> {
    let shape = (1u32..=4, 1u32..=10, 1u32..=4, any::<bool>(), any::<bool>());
    let rest = (any::<u64>(), 0u32..=3, 0u32..=3, 4u32..=7);
    (shape, rest).prop_map(|((nodes, cores, threads, adjacent, known), (offline, kinds, cache, major))| {
        let all = nodes * cores * threads;
        let number = |core: u32, thread: u32| {
            if adjacent { core * threads + thread } else { thread * nodes * cores + core }
        };
        let mut machine = Snapshot::default();
        for core in 0..nodes * cores {
            let siblings: CpuSet = (0..threads).map(|thread| number(core, thread)).collect();
            for id in siblings.iter() {
                let node = core / cores;
                let group = if cache == 0 { 0 } else { core / (cache * 2) };
                machine.cpus.push(Cpu {
                    id,
                    online: id == 0 || offline >> (id % 64) & 7 != 7,
                    node: known.then_some(node),
                    siblings: siblings.clone(),
                    capacity: (kinds > 0).then_some(if core % (kinds + 1) == 0 { 1024 } else { 500 }),
                    last_cache_cpus: (0..nodes * cores)
                        .filter(|other| cache == 0 || other / (cache * 2) == group)
                        .flat_map(|core| (0..threads).map(move |thread| (core, thread)))
                        .map(|(core, thread)| number(core, thread))
                        .collect(),
                    ..Cpu::default()
                });
            }
        }
        machine.cpus.sort_by_key(|cpu| cpu.id);
        let online = machine.online();
        for cpu in &mut machine.cpus {
            cpu.siblings = if cpu.online { cpu.siblings.and(&online) } else { CpuSet::new() };
        }
        machine.possible = (0..all).collect();
        machine.architecture = Some("x86_64".to_string());
        machine.kernel.release = known.then(|| format!("{major}.12.0"));
        machine.kernel.preemption = Preemption::RealTime;
        if known {
            for option in ["NO_HZ_FULL", "RCU_NOCB_CPU", "CPU_ISOLATION"] {
                machine.kernel.options.insert(option.to_string(), "y".to_string());
            }
        }
        machine
    })
}

fn intents() -> impl Strategy<Value = Intent> {
    let profiles = [Profile::Periodic, Profile::Poll, Profile::Audio, Profile::Vm, Profile::Server];
    let wanted = prop_oneof![
        Just(WantedCpus::Default),
        (0u32..12).prop_map(WantedCpus::Cores),
        proptest::collection::btree_set(0u32..64, 0..12)
            .prop_map(|cpus| WantedCpus::Cpus(cpus.into_iter().collect())),
    ];
    (proptest::sample::select(profiles.to_vec()), wanted, any::<bool>(), any::<bool>(), any::<bool>())
        .prop_map(|(profile, cpus, no_reboot, split_siblings, nosmt)| Intent {
            no_reboot,
            split_siblings,
            nosmt,
            ..Intent::new(profile, cpus)
        })
}

/// Whether `text` is a list as every kernel since 2.6 reads it: numbers and ascending ranges, nothing else.
fn plain_list(text: &str) -> bool {
    !text.is_empty()
        && text.split(',').all(|part| match part.split_once('-') {
            None => part.parse::<u32>().is_ok(),
            Some((first, last)) => match (first.parse::<u32>(), last.parse::<u32>()) {
                (Ok(first), Ok(last)) => first < last,
                _ => false,
            },
        })
}

fn check(machine: &Snapshot, asked: &Intent, plan: &Plan) {
    let online = machine.online();
    assert!(plan.housekeeping.contains(0), "the boot CPU keeps house");
    assert!(plan.isolated.and(&plan.housekeeping).is_empty(), "no CPU is both");
    assert!(plan.isolated.or(&plan.housekeeping).without(&online).is_empty(), "only online CPUs");
    assert!(plan.real_time.without(&plan.isolated).is_empty(), "real-time CPUs are isolated ones");
    assert_eq!(plan.real_time.is_empty(), plan.isolated.is_empty());
    if !asked.nosmt {
        assert_eq!(plan.isolated.or(&plan.housekeeping), online, "no CPU is forgotten");
        if !asked.split_siblings {
            assert!(machine.siblings_of(&plan.isolated).is_empty(), "no core is split");
        }
    }
    for action in &plan.actions {
        for text in
            [&action.target, &action.reason, &action.source, &action.cost, &action.verify, &action.undo]
        {
            assert!(!text.is_empty() && !text.contains('\n'), "{action:?}");
        }
        if action.kind == ActionKind::BootParameter {
            assert!(!NEVER.iter().any(|(name, _)| *name == action.target), "{}", action.target);
        }
    }
    for token in plan.boot_line().to_string().split(' ').filter(|token| !token.is_empty()) {
        let (name, value) = token.split_once('=').unwrap_or((token, ""));
        match name {
            "isolcpus" => {
                let list = value.split(',').skip_while(|word| word.starts_with(|c: char| c.is_alphabetic()));
                assert!(plain_list(&list.collect::<Vec<_>>().join(",")), "{token}");
            }
            "irqaffinity" | "nohz_full" | "rcu_nocbs" => assert!(plain_list(value), "{token}"),
            _ => {}
        }
    }
    assert_eq!(
        plan.boot_line().is_empty(),
        !plan.actions.iter().any(|action| action.kind == ActionKind::BootParameter)
    );
    assert!(!asked.no_reboot || plan.boot_line().is_empty());
    assert_eq!(Plan::read(&serde_json::to_string(plan).unwrap()).as_ref(), Ok(plan));
    // Each action is in the profile of TuneD, or is listed as left out.
    let profile = tune::tuned::profile(plan);
    let main = &profile.files[0].text;
    for action in &plan.actions {
        let left_out = profile.left_out.iter().any(|left| left.what == action.target);
        assert!(left_out != main.contains(&action.reason), "{action:?}: {main}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_leaves_the_system_its_cpus_and_writes_what_every_kernel_reads(
        machine in machines(), asked in intents()
    ) {
        match plan(&machine, &MadeFor::default(), &asked) {
            Ok(plan) => check(&machine, &asked, &plan),
            Err(refusal) => {
                prop_assert!(!refusal.reason.is_empty() && !refusal.cure.is_empty());
                prop_assert!(!refusal.to_string().contains('\n'));
            }
        }
    }

    #[test]
    fn the_same_machine_and_intent_give_the_same_plan(machine in machines(), asked in intents()) {
        let once = plan(&machine, &MadeFor::default(), &asked);
        // What is set at present, by us or others, is not asked.
        let mut later = machine.clone();
        later.kernel.command_line = once.as_ref().ok().map(|plan| plan.boot_line().to_string());
        prop_assert_eq!(once, plan(&later, &MadeFor::default(), &asked));
    }

    #[test]
    fn a_plan_that_was_written_and_read_is_the_same_and_one_changed_by_hand_is_not(
        machine in machines(), asked in intents(), at in any::<prop::sample::Index>(),
    ) {
        if let Ok(plan) = plan(&machine, &MadeFor::default(), &asked) {
            let text = serde_json::to_string_pretty(&plan).unwrap();
            prop_assert_eq!(Plan::read(&text).unwrap(), plan.clone());
            // One digit of it, wherever it stands, made another.
            let digits = text.bytes().enumerate().filter(|(_, byte)| byte.is_ascii_digit());
            let digits: Vec<usize> = digits.map(|(at, _)| at).collect();
            let place = digits[at.index(digits.len())];
            let mut bytes = text.into_bytes();
            bytes[place] = if bytes[place] == b'9' { b'8' } else { bytes[place] + 1 };
            let changed = String::from_utf8(bytes).unwrap();
            prop_assert!(Plan::read(&changed).is_err(), "{}", &changed[place.saturating_sub(60)..place + 9]);
        }
    }
}
