// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rights of this process, as the kernel states them: capabilities (capget(2)), limits (getrlimit(2)),
//! and the size of its address space (`/proc/self/status`; unknown, and so 0, where that cannot be read).

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

/// The rights of this process, as the caller found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Privilege {
    /// Whether it has CAP_SYS_NICE.
    pub cap_sys_nice: bool,
    /// Whether it has CAP_IPC_LOCK.
    pub cap_ipc_lock: bool,
    /// RLIMIT_RTPRIO: the highest real-time priority without CAP_SYS_NICE.
    pub rtprio_limit: u64,
    /// RLIMIT_MEMLOCK in bytes; absent: unlimited.
    pub memlock_limit_bytes: Option<u64>,
    /// The memory that `mlockall` has to lock: the size of the address space (`VmSize`), in bytes.
    pub address_space_bytes: u64,
}

impl Privilege {
    /// The present rights of this process.
    pub fn of_this_process() -> Privilege {
        let status = untrusted::text("/proc/self/status").unwrap_or_default();
        let capable = |capability| capabilities(None).is_ok_and(|sets| sets.effective.contains(capability));
        Privilege {
            cap_sys_nice: capable(CapabilitySet::SYS_NICE),
            cap_ipc_lock: capable(CapabilitySet::IPC_LOCK),
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

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_those_that_the_status_file_shows() {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let mask = u64::from_str_radix(field(&status, "CapEff:").unwrap(), 16).unwrap();
        let seen = Privilege::of_this_process();
        assert_eq!((seen.cap_ipc_lock, seen.cap_sys_nice), (mask >> 14 & 1 == 1, mask >> 23 & 1 == 1));
        assert!(seen.address_space_bytes > 0);
    }
}
