// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whatever a boot line or a list says, nothing panics; and lists are read as the kernel's own form.

use crate::common::sound_but;
use doctor::{DoctorQuestion, Profile, Use};
use machine::CpuSet;
use machine::registry::{ValueKind, known, list};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn plain_lists_are_read_alike(cpus in proptest::collection::btree_set(0u32..300, 0..20)) {
        let cpus: CpuSet = cpus.into_iter().collect();
        let listed = list::read(ValueKind::Cpus, &cpus.to_string(), 299).unwrap();
        prop_assert_eq!(&listed.cpus, &cpus);
        let flagged = list::read(ValueKind::FlagsAndCpus, &format!("managed_irq,domain,{cpus}"), 299).unwrap();
        prop_assert_eq!(flagged.flags.len(), 2);
        prop_assert_eq!(flagged.cpus, cpus);
    }

    #[test]
    fn no_list_names_a_cpu_that_cannot_be(text in "[0-9N,:/a-z-]{0,24}", last in 0u32..512) {
        for takes in [ValueKind::Cpus, ValueKind::FlagsAndCpus, ValueKind::MaybeCpus] {
            if let Ok(listed) = list::read(takes, &text, last) {
                prop_assert!(listed.cpus.iter().all(|cpu| cpu <= last));
            }
        }
    }

    #[test]
    fn a_misspelling_is_found_or_not_but_never_a_known_name(name in "[a-z_.-]{0,20}") {
        if let Some(meant) = known::meant(&name) {
            prop_assert!(!known::is_known(&name) && known::is_known(meant));
        }
    }

    #[test]
    fn a_use_is_read_or_refused(text in "(audio|control|linuxcnc|ethercat|poll|vm|):?[0-9.kHzmus@+-]{0,12}") {
        if let Ok(asked) = text.parse::<Use>() {
            let period_ns = asked.period_ns.unwrap_or(1_000_000);
            prop_assert!(asked.limit_ns <= period_ns && asked.limit_ns > 0 && period_ns >= 1_000);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_boot_line_is_looked_at(line in "((isolcpus|nohz_full|rcu_nocbs|irqaffinity|idle|tsc|nosmt|x)[=]?[0-9N,a-z\"-]{0,8} ){0,6}") {
        let machine = sound_but(&[("proc/cmdline", &line)]);
        for profile in Profile::ALL {
            let report = doctor::examine(&machine, &DoctorQuestion { profile, ..DoctorQuestion::default() });
            prop_assert!(report.checks.len() >= 89);
        }
    }
}
