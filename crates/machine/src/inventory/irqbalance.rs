// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of the running irqbalance, and which CPUs these spare.
//!
//! It looks at `IRQBALANCE_BANNED_CPUS`, a mask, first; then at `IRQBALANCE_BANNED_CPULIST`; and only where
//! neither is set does it spare the CPUs of `/sys/devices/system/cpu/isolated` and `nohz_full`. What it
//! cannot read bans what stood before the fault, and switches that detection off as well. Reference:
//! irqbalance, cputree.c (`setup_banned_cpus`), bitmap.c, v1.1.0 to v1.9.5 and what came until March 2026.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::CpuSet;
use crate::isolation::Isolation;

/// The variable that bans CPUs by a list; it is read since irqbalance 1.8.0.
pub const BANNED: &str = "IRQBALANCE_BANNED_CPULIST";
/// The older variable, a hexadecimal mask, which goes before it.
pub const BANNED_MASK: &str = "IRQBALANCE_BANNED_CPUS";

/// The highest CPU that it can name (its `NR_CPUS` is 4096).
const MOST: u32 = 4095;

/// The settings of the running irqbalance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Irqbalance {
    /// The source of that: its environment, or the files that its unit names.
    pub source: String,
    /// The reason why it is unknown, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// `IRQBALANCE_BANNED_CPUS`, where it is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask: Option<String>,
    /// `IRQBALANCE_BANNED_CPULIST`, where it is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// Whether the installed program reads the list; absent where the program could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_list: Option<bool>,
    /// Whether the installed program avoids isolated CPUs by default; absent if the program could not be
    /// read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detects: Option<bool>,
}

/// The CPUs that it leaves alone, and what decides that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spares {
    /// The CPUs.
    pub cpus: CpuSet,
    /// The setting that decides.
    pub by: BannedBy,
    /// Whether all of the value that decides could be read as CPUs.
    pub whole: bool,
}

/// The setting that decides which CPUs irqbalance leaves alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BannedBy {
    /// `IRQBALANCE_BANNED_CPUS`.
    Mask,
    /// `IRQBALANCE_BANNED_CPULIST`.
    List,
    /// Its own detection of isolated CPUs.
    Itself,
}

impl Irqbalance {
    /// The CPUs that it leaves alone on a machine with this isolation.
    pub fn spares(&self, isolation: &Isolation) -> Spares {
        let told = |by, (cpus, whole)| Spares { cpus, by, whole };
        match (&self.mask, &self.list) {
            (Some(mask), _) if !mask.is_empty() => told(BannedBy::Mask, mask_of(mask)),
            // An empty list bans nothing since March 2026; a version before that cannot be told from one
            // after it.
            (_, Some(list)) if self.reads_list != Some(false) => told(BannedBy::List, list_of(list)),
            // Up to 1.6.0 an empty mask bans nothing.
            (Some(_), _) if self.reads_list == Some(false) => told(BannedBy::Mask, (CpuSet::new(), true)),
            _ if self.detects == Some(false) => told(BannedBy::Itself, (CpuSet::new(), true)),
            _ => told(BannedBy::Itself, (isolation.isolated.or(&isolation.nohz_full), true)),
        }
    }
}

/// A mask as irqbalance reads it: groups of at most eight significant digits. What a fault leaves is what
/// stood before it.
fn mask_of(text: &str) -> (CpuSet, bool) {
    let mut groups: Vec<u32> = Vec::new();
    let mut whole = true;
    let text = text.trim();
    for group in text.strip_suffix(',').unwrap_or(text).split(',') {
        let digits = group.trim();
        let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u32::from_str_radix(digits, 16) {
            Ok(value) if valid => groups.push(value),
            _ => {
                whole = false;
                break;
            }
        }
    }
    let bits = groups.iter().rev().zip(0u32..).flat_map(|(group, place)| {
        (0..32).filter(move |bit| group & (1 << bit) != 0).map(move |bit| 32 * place + bit)
    });
    (bits.filter(|cpu| *cpu <= MOST).collect(), whole)
}

/// A list as irqbalance reads it: numbers and ranges. An empty item is CPU 0; what follows a fault is not
/// read.
fn list_of(text: &str) -> (CpuSet, bool) {
    let mut cpus = CpuSet::new();
    let text = text.trim();
    let items = text.strip_suffix(',').unwrap_or(text).split(',');
    for item in items.map(str::trim) {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let number = |digits: &str| match digits.trim() {
            "" if item.is_empty() => Some(0),
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse::<u32>().ok(),
            _ => None,
        };
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last && last <= MOST => {
                cpus = cpus.or(&(first..=last).collect());
            }
            _ => return (cpus, false),
        }
    }
    (cpus, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_masks_and_lists_as_irqbalance_does() {
        let mask = |text: &str| {
            let (cpus, whole) = mask_of(text);
            format!("{cpus}{}", if whole { "" } else { "!" })
        };
        for (text, expected) in [
            ("00000001", "0"),
            ("0000fff0", "4-15"),
            ("1,00000000", "32"),
            (" ff ", "0-7"),
            ("0000000000000000000f", "0-3"),
            ("fff0,", "4-15"),
            ("0x3", "!"),
            ("fffffffff", "!"),
            ("f,x", "0-3!"),
            ("f,,1", "0-3!"),
            ("4-15", "!"),
        ] {
            assert_eq!(mask(text), expected, "{text}");
        }
        let list = |text: &str| {
            let (cpus, whole) = list_of(text);
            format!("{cpus}{}", if whole { "" } else { "!" })
        };
        for (text, expected) in [
            ("4-15", "4-15"),
            ("1,3-4,", "1,3-4"),
            (" 2 , 3 ", "2-3"),
            // Its parser takes an empty item for CPU 0.
            ("", "0"),
            (",5", "0,5"),
            ("4-3", "!"),
            ("-", "!"),
            ("4-", "!"),
            ("-4", "!"),
            ("1,4-3,7", "1!"),
            ("2-3-4", "!"),
            ("4-15 # cores", "!"),
            ("4-15# cores", "!"),
            ("all", "!"),
            ("0x4", "!"),
            ("4-15:1/2", "!"),
            ("2-4096", "!"),
            ("99999999999", "!"),
        ] {
            assert_eq!(list(text), expected, "{text}");
        }
    }

    #[test]
    fn the_mask_goes_before_the_list_and_the_list_before_detection() {
        let isolation = Isolation {
            isolated: "4-5".parse().unwrap(),
            nohz_full: "6".parse().unwrap(),
            ..Isolation::default()
        };
        let spares = |mask: Option<&str>, list: Option<&str>, reads_list| {
            let told = Irqbalance {
                mask: mask.map(str::to_string),
                list: list.map(str::to_string),
                reads_list,
                ..Irqbalance::default()
            };
            let spares = told.spares(&isolation);
            (spares.by, spares.cpus.to_string())
        };
        assert_eq!(spares(None, None, None), (BannedBy::Itself, "4-6".into()));
        assert_eq!(spares(Some("1"), Some("4-6"), None), (BannedBy::Mask, "0".into()));
        assert_eq!(spares(Some(""), Some("4-6"), None), (BannedBy::List, "4-6".into()));
        assert_eq!(spares(Some(""), None, None), (BannedBy::Itself, "4-6".into()));
        assert_eq!(spares(Some(""), None, Some(false)), (BannedBy::Mask, String::new()));
        assert_eq!(spares(None, Some(""), None), (BannedBy::List, "0".into()));
        assert_eq!(spares(None, Some("9"), Some(false)), (BannedBy::Itself, "4-6".into()));
    }
}
