// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a row's spikes get their causes. The control thread asks, between the hot loop's ring and the bundle:
//! nothing of it runs on a measured CPU.

use evidence::manifest::Spike;

/// Somebody who knows what took a CPU.
pub trait Explain {
    /// A row begins: each of these threads will measure on that CPU, (CPU, thread), and sleeps until this returns.
    fn begin(&mut self, threads: &[(u32, u32)]) {
        let _ = threads;
    }

    /// Called four times a second while a row is measured, before its spikes are taken.
    fn look(&mut self) {}

    /// Adds to `spike`, which ended at most some hundred milliseconds ago, what is known of it.
    fn explain(&mut self, spike: &mut Spike);
}

/// Knows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCauses;

impl Explain for NoCauses {
    fn explain(&mut self, _: &mut Spike) {}
}
