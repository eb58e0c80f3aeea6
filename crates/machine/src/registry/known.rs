// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a name of the boot line is a misspelt one.
//!
//! Similarity alone does not decide: `nosmp` and `nosmt` are parameters both. So a name that any kernel
//! takes is never suspected, and short names must be nearer than long ones. Limit: names that came after
//! Linux 6.12 and are in no table; a caller who has the kernel's own line of unknown parameters asks only for
//! those.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::boot;

const NAMES: &str = include_str!("known.txt");

/// All names, with `_` for `-`: a line may have thousands of words.
static KNOWN: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let listed = NAMES.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
    listed.chain(boot().map(|setting| setting.name)).map(|name| name.replace('-', "_")).collect()
});

/// Whether some kernel takes a parameter of this name, or a table here has it.
pub fn is_known(name: &str) -> bool {
    KNOWN.contains(&name.replace('-', "_"))
}

/// The parameter that `name` seems to be a misspelling of.
pub fn meant(name: &str) -> Option<&'static str> {
    if is_known(name) || name.len() > 64 {
        return None;
    }
    let most = match name.len() {
        0..=3 => return None,
        4..=6 => 1,
        _ => 2,
    };
    // A module's other parameters are near to each other; only their own spelling is compared.
    let comparable = |known: &str| match (known.split_once('.'), name.split_once('.')) {
        (None, None) => true,
        (Some((module, _)), Some((ours, _))) => module == ours || distance(module, ours) <= 1,
        _ => false,
    };
    let written = name.replace('-', "_");
    let alike = |known: &&str| known.len().abs_diff(written.len()) <= most && comparable(known);
    let candidates = boot().map(|setting| setting.name).filter(alike);
    let near = candidates.map(|known| (distance(known, &written), known));
    near.filter(|(distance, _)| *distance <= most).min().map(|(_, known)| known)
}

/// How many letters have to be put in, left out, replaced or exchanged with their neighbour (optimal string
/// alignment).
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for i in 0..one.len() {
        let mut row = vec![i + 1];
        for j in 0..other.len() {
            let replaced = above[j] + usize::from(one[i] != other[j]);
            let mut least = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && one[i] == other[j - 1] && one[i - 1] == other[j] {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_takes_is_no_misspelling() {
        for name in ["nosmp", "nohz", "highmem", "isolcpus", "nohz-full", "nmi_backtrace", "initrd", "audit"]
        {
            assert_eq!(meant(name), None, "{name}");
        }
    }

    #[test]
    fn no_name_in_the_kernels_list_is_taken_for_another() {
        let names = NAMES.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
        assert_eq!(names.filter(|name| meant(name).is_some()).count(), 0);
    }

    #[test]
    fn finds_what_was_meant() {
        for (written, meant_to_be) in [
            ("isolcpu", "isolcpus"),
            ("isolcups", "isolcpus"),
            ("isol_cpus", "isolcpus"),
            ("nohzfull", "nohz_full"),
            ("nohz-ful", "nohz_full"),
            ("rcu_nocb", "rcu_nocbs"),
            ("irqaffinty", "irqaffinity"),
            ("skewtick", "skew_tick"),
            ("procesor.max_cstate", "processor.max_cstate"),
            ("rcutree.kthread_pri", "rcutree.kthread_prio"),
            ("nosoftlookup", "nosoftlockup"),
        ] {
            assert_eq!(meant(written), Some(meant_to_be), "{written}");
        }
        for other in [
            "",
            "x",
            "foo",
            "hwaddress",
            "systemd.unit",
            "nvidia_drm.modeset",
            "rcutree.blimit",
            &"i".repeat(1000),
        ] {
            assert_eq!(meant(other), None, "{other}");
        }
    }

    #[test]
    fn counts_an_exchange_of_neighbours_as_one() {
        assert_eq!(["", "ab", "ba", "abc", "xyz"].map(|other| distance("ab", other)), [2, 0, 1, 1, 3]);
    }
}
