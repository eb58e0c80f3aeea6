// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this process may do, as the kernel states it: capabilities (capabilities(7)) from `/proc/self/status`,
//! limits (getrlimit(2)).

use rustix::process::{Resource, getrlimit};

use crate::preflight::Privilege;

const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_NICE: u32 = 23;

impl Privilege {
    /// What this process may do now.
    pub fn of_this_process() -> Privilege {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let capable = |number: u32| capabilities(&status) >> number & 1 == 1;
        Privilege {
            cap_sys_nice: capable(CAP_SYS_NICE),
            cap_ipc_lock: capable(CAP_IPC_LOCK),
            // No limit at all comes as none.
            rtprio_limit: getrlimit(Resource::Rtprio).current.unwrap_or(99),
            memlock_limit_bytes: getrlimit(Resource::Memlock).current,
            address_space_bytes: field(&status, "VmSize:")
                .and_then(|kib| kib.parse::<u64>().ok())
                .unwrap_or(0)
                * 1024,
        }
    }
}

fn capabilities(status: &str) -> u64 {
    field(status, "CapEff:").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0)
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_a_mask_of_numbered_bits() {
        let status = "Name:\tx\nVmSize:\t    2048 kB\nCapPrm:\t0000000000000000\nCapEff:\t0000000000804000\n";
        assert_eq!(capabilities(status), 1 << CAP_SYS_NICE | 1 << CAP_IPC_LOCK);
        assert_eq!(field(status, "VmSize:"), Some("2048"));
        assert_eq!(capabilities("CapEff:\tnot a mask\n"), 0);
    }
}
