// SPDX-License-Identifier: MIT OR Apache-2.0
//! Churn of the kernel's own mappings: areas that are freed are unmapped lazily, and once enough of them wait
//! every CPU is interrupted to forget them (__purge_vmap_area_lazy -> flush_tlb_kernel_range).

use std::fs;
use std::time::Duration;

use crate::guest::storm::{Context, Storm, StormKind};
use crate::guest::{Result, sys};

pub const VMALLOC: StormKind = StormKind {
    name: "vmalloc",
    about: "maps and frees large areas of the kernel's memory, as BPF maps",
    rounds: 25,
    pace: Duration::from_millis(100),
    ready: |_| Ok(Box::new(Churn { purged: 0, lazy: lazy()? })),
    ..StormKind::USUAL
};

/// Size of one area: the kernel lets 32 MiB for each doubling of its CPUs wait (lazy_max_pages).
const AREA: u32 = 16 << 20;

struct Churn {
    purged: u64,
    lazy: u64,
}

/// Areas that are freed and wait to be forgotten.
fn lazy() -> Result<u64> {
    let areas = fs::read_to_string("/proc/vmallocinfo").map_err(|e| format!("/proc/vmallocinfo: {e}"))?;
    Ok(areas.lines().filter(|line| line.contains("unpurged vm_area")).count() as u64)
}

impl Storm for Churn {
    fn round(&mut self, _: &mut Context) -> Result<()> {
        drop(sys::bpf_array(AREA).map_err(|e| format!("a BPF map: {e}"))?);
        // It is freed a little later, as deferred work: each round looks at what waits from those before.
        let lazy = lazy()?;
        self.purged += u64::from(lazy < self.lazy);
        self.lazy = lazy;
        Ok(())
    }

    fn end(&mut self, rounds: u64) -> Result<String> {
        let mib = rounds * u64::from(AREA >> 20);
        if self.purged == 0 {
            return Err(format!("{mib} MiB were mapped and freed, but never purged").into());
        }
        Ok(format!("{mib} MiB of kernel memory mapped and freed; purged {} times", self.purged))
    }
}
