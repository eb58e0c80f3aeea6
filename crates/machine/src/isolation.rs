// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs that the kernel keeps work away from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::CpuSet;

/// Isolated CPUs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Isolation {
    /// CPUs outside the scheduler's domains (`/sys/devices/system/cpu/isolated`).
    pub isolated: CpuSet,
    /// CPUs of isolated cgroup partitions (`/sys/fs/cgroup/cpuset.cpus.isolated`).
    pub partitions: CpuSet,
    /// CPUs whose tick may stop (`/sys/devices/system/cpu/nohz_full`).
    pub nohz_full: CpuSet,
    /// CPUs that a device interrupt may use by default (`/proc/irq/default_smp_affinity`).
    pub irq_default: CpuSet,
}

impl Isolation {
    /// CPUs that the scheduler moves nothing to by itself: isolated at boot or by a cgroup partition.
    pub fn set_apart(&self) -> CpuSet {
        self.isolated.or(&self.partitions)
    }
}
