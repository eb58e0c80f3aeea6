// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets of CPUs in the kernel's list syntax, `0,2-5`.
//!
//! The syntax is that of the kernel's `bitmap_parselist` (lib/bitmap-str.c) without its `N` and stride
//! forms, which no file of sysfs prints.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A set of CPU numbers; written and read as `0,2-5`, the empty set as an empty string.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuSet(BTreeSet<u32>);

/// Why a text is no CPU list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a list of CPUs: {reason}; write it as 0,2-5")]
pub struct CpuSetError {
    text: String,
    reason: &'static str,
}

/// The kernel's largest configurable CPU number (NR_CPUS 8192) bounds what a list may name.
const MAX_CPU: u32 = 8191;

impl CpuSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the kernel's hexadecimal mask, `00000000,0000000f`.
    pub fn from_mask(text: &str) -> Result<Self, CpuSetError> {
        let fail = |reason| CpuSetError { text: text.trim().to_string(), reason };
        let digits: Vec<char> = text.trim().chars().filter(|c| *c != ',').collect();
        if digits.is_empty() {
            return Err(fail("a mask has hexadecimal digits"));
        }
        let mut set = CpuSet::new();
        for (place, digit) in (0u32..).zip(digits.iter().rev()) {
            let bits = digit.to_digit(16).ok_or_else(|| fail("a mask has hexadecimal digits"))?;
            for bit in (0..4).filter(|bit| bits & (1 << bit) != 0) {
                let cpu = 4 * place + bit;
                if cpu > MAX_CPU {
                    return Err(fail("no kernel has that many CPUs"));
                }
                set.insert(cpu);
            }
        }
        Ok(set)
    }

    /// The hexadecimal mask as a kernel whose last possible CPU is `last` prints it, `0fffffff,0fffffff`;
    /// longer where the set has a higher CPU. Numbers that no kernel has are left out.
    pub fn to_mask(&self, last: u32) -> String {
        let cpus = self.iter().max().unwrap_or(0).max(last).min(MAX_CPU) + 1;
        let digits = (0..cpus.div_ceil(4)).rev().map(|place| {
            let bits = (0..4).filter(|bit| self.contains(4 * place + bit)).map(|bit| 1 << bit).sum::<u32>();
            let comma = if place > 0 && place % 8 == 0 { "," } else { "" };
            format!("{:x}{comma}", bits)
        });
        digits.collect()
    }

    /// Whether `cpu` is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// Adds `cpu`.
    pub fn insert(&mut self, cpu: u32) {
        self.0.insert(cpu);
    }

    /// The CPU numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// How many CPUs are in the set.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set has no CPU.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The CPUs of this set that are not in `other`.
    pub fn without(&self, other: &CpuSet) -> CpuSet {
        CpuSet(self.0.difference(&other.0).copied().collect())
    }

    /// The CPUs that are in both sets.
    pub fn and(&self, other: &CpuSet) -> CpuSet {
        CpuSet(self.0.intersection(&other.0).copied().collect())
    }

    /// The CPUs that are in either set.
    pub fn or(&self, other: &CpuSet) -> CpuSet {
        CpuSet(self.0.union(&other.0).copied().collect())
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        CpuSet(cpus.into_iter().collect())
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<Self, CpuSetError> {
        let fail = |reason| CpuSetError { text: text.trim().to_string(), reason };
        let number = |digits: &str| -> Result<u32, CpuSetError> {
            let cpu = digits.trim().parse::<u32>().map_err(|_| fail("a CPU is a number"))?;
            if cpu > MAX_CPU { Err(fail("no kernel has that many CPUs")) } else { Ok(cpu) }
        };
        let mut set = CpuSet::new();
        if text.trim().is_empty() {
            return Ok(set);
        }
        for part in text.trim().split(',') {
            match part.split_once('-') {
                None => set.insert(number(part)?),
                Some((first, last)) => {
                    let (first, last) = (number(first)?, number(last)?);
                    if first > last {
                        return Err(fail("a range ends before it begins"));
                    }
                    set.0.extend(first..=last);
                }
            }
        }
        Ok(set)
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            // A set of foreign numbers may have the largest, which none follows.
            while let Some(next) = last.checked_add(1).filter(|next| cpus.peek() == Some(next)) {
                cpus.next();
                last = next;
            }
            match last - first {
                0 => write!(out, "{separator}{first}")?,
                _ => write!(out, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl Serialize for CpuSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for CpuSet {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CpuSet".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "CPUs in the kernel's list syntax, for example 0,2-5",
            "pattern": "^([0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)?$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_the_kernels_list_syntax() {
        for (text, canonical) in
            [("", ""), ("0", "0"), ("0,2-5", "0,2-5"), ("5,3,4", "3-5"), ("1-1\n", "1"), ("0-1,1-3", "0-3")]
        {
            assert_eq!(text.parse::<CpuSet>().unwrap().to_string(), canonical);
        }
    }

    #[test]
    fn reads_the_kernels_masks() {
        for (mask, list) in [
            ("3", "0-1"),
            ("00000000,00000808\n", "3,11"),
            ("03f0,00000000", "36-41"),
            ("ff", "0-7"),
            ("0", ""),
        ] {
            assert_eq!(CpuSet::from_mask(mask).unwrap().to_string(), list);
        }
        for mask in ["", ",", "0x3", "xyz", &format!("1{}", "0".repeat(3000))] {
            assert!(CpuSet::from_mask(mask).is_err(), "{mask}");
        }
    }

    #[test]
    fn writes_the_kernels_masks() {
        for (list, last, mask) in [
            ("0-2", 3, "7"),
            ("0-7", 11, "0ff"),
            ("0-27,32-59", 63, "0fffffff,0fffffff"),
            ("33", 33, "2,00000000"),
            ("", 0, "0"),
            ("8", 3, "100"),
        ] {
            let set: CpuSet = list.parse().unwrap();
            assert_eq!(set.to_mask(last), mask);
            assert_eq!(CpuSet::from_mask(mask).unwrap(), set);
        }
    }

    #[test]
    fn shows_numbers_that_no_kernel_has() {
        let set: CpuSet = [0, 1, u32::MAX - 1, u32::MAX].into_iter().collect();
        assert_eq!(set.to_string(), "0-1,4294967294-4294967295");
        let mask = set.to_mask(u32::MAX);
        assert_eq!(CpuSet::from_mask(&mask).unwrap().to_string(), "0-1");
    }

    #[test]
    fn says_what_is_wrong_with_a_list() {
        for text in ["a", "1-", "3-1", "-1", "1,,2", "99999", "1;2"] {
            let error = text.parse::<CpuSet>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("0,2-5"), "{error}");
        }
    }
}
