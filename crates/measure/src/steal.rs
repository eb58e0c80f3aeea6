// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time that a hypervisor took from a CPU: the `steal` column of `/proc/stat` (proc(5)), which counts in
//! USER_HZ, so that less than 10 ms may go unseen.

use std::collections::BTreeMap;

/// Steal time by CPU since boot, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Steal(BTreeMap<u32, u64>);

/// The kernel counts in this unit for user space, whatever its own tick is.
const NS_PER_USER_HZ: u64 = 10_000_000;

impl Steal {
    /// Reads `/proc/stat`; empty where it cannot be read.
    pub fn now() -> Steal {
        Steal::parse(&untrusted::text("/proc/stat").unwrap_or_default())
    }

    fn parse(text: &str) -> Steal {
        let cpu = |line: &str| {
            let mut words = line.split_whitespace();
            let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
            Some((cpu, words.nth(7)?.parse::<u64>().ok()?.saturating_mul(NS_PER_USER_HZ)))
        };
        Steal(text.lines().filter_map(cpu).collect())
    }

    /// Steal time of `cpu` since `earlier`.
    pub fn since(&self, earlier: &Steal, cpu: u32) -> Option<u64> {
        Some(self.0.get(&cpu)?.saturating_sub(*earlier.0.get(&cpu)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_figure_of_each_cpu() {
        let before = Steal::parse(
            "cpu  9 9 9 9 9 9 9 50 0 0\ncpu0 1 2 3 4 5 6 7 20 0 0\ncpu1 1 2 3 4 5 6 7 30 0 0\nintr 5\n",
        );
        let after = Steal::parse("cpu0 1 2 3 4 5 6 7 20 0 0\ncpu1 1 2 3 4 5 6 7 33 0 0\n");
        assert_eq!(after.since(&before, 0), Some(0));
        assert_eq!(after.since(&before, 1), Some(30_000_000));
        assert_eq!(after.since(&before, 2), None);
    }
}
