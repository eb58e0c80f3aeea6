// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of accounts, and the capabilities that a program may be given.

/// Capabilities that the copy may have, with their numbers (include/uapi/linux/capability.h).
const CAPABILITIES: [(&str, u32); 4] =
    [("CAP_IPC_LOCK", 14), ("CAP_SYS_NICE", 23), ("CAP_PERFMON", 38), ("CAP_BPF", 39)];

/// The attribute `security.capability` that gives a program these (`vfs_cap_data`, revision 2, effective);
/// none where one of them is not ours to give.
pub fn attribute(names: &[String]) -> Option<Vec<u8>> {
    let mut bits = 0u64;
    for name in names {
        bits |= 1 << CAPABILITIES.iter().find(|(known, _)| known == name)?.1;
    }
    let [low, high] = [bits as u32, (bits >> 32) as u32];
    Some([0x0200_0001, low, 0, high, 0].into_iter().flat_map(u32::to_le_bytes).collect())
}

/// Whether a group or a user may have this name in a file of accounts (useradd(8)).
pub fn is_account(name: &str) -> bool {
    let first = name.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_');
    let letter = |letter: char| letter.is_ascii_alphanumeric() || "._-$@".contains(letter);
    first && name.len() <= 64 && name.chars().all(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_capabilities_as_the_kernel_reads_them() {
        // As setcap(8) writes them.
        let of = |names: &[&str]| {
            attribute(&names.iter().map(ToString::to_string).collect::<Vec<_>>())
                .map(|bytes| machine::hexadecimal(&bytes))
        };
        let first = "01000002".to_string() + "00408000" + "00000000";
        assert_eq!(of(&["CAP_SYS_NICE", "CAP_IPC_LOCK"]).unwrap(), first.clone() + "00000000" + "00000000");
        let all = ["CAP_SYS_NICE", "CAP_IPC_LOCK", "CAP_BPF", "CAP_PERFMON"];
        assert_eq!(of(&all).unwrap(), first + "c0000000" + "00000000");
        assert_eq!(of(&["CAP_SYS_ADMIN"]), None);
    }

    #[test]
    fn names_of_accounts_hold_no_separator() {
        for good in ["ann", "_apt", "systemd-network", "a.b", "DOMAIN-x$"] {
            assert!(is_account(good), "{good}");
        }
        for bad in ["", "-x", "a:b", "a,b", "a b", "a\n", "+", "../x", "ü"] {
            assert!(!is_account(bad), "{bad}");
        }
    }
}
