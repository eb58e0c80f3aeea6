// SPDX-License-Identifier: MIT OR Apache-2.0
//! The meaning of numbers and texts in trace events.

use std::collections::HashMap;

use evidence::cause::KernelContext;
use ftrace::event::{HARDIRQ, NMI, SOFTIRQ};

use crate::event::{ContextKind, Vector};

/// The context in the flags of an event.
pub fn context(flags: u64) -> KernelContext {
    match flags {
        flags if flags & u64::from(NMI) != 0 => KernelContext::Nmi,
        flags if flags & u64::from(HARDIRQ) != 0 => KernelContext::Hardirq,
        flags if flags & u64::from(SOFTIRQ) != 0 => KernelContext::Softirq,
        _ => KernelContext::Task,
    }
}

pub fn call(function: u64, request: u64) -> ContextKind {
    ContextKind::Call { function, request }
}

pub fn vector(name: &str) -> Option<Vector> {
    Some(match name {
        "local_timer" => Vector::LocalTimer,
        "reschedule" => Vector::Reschedule,
        "call_function" | "call_function_single" => Vector::CallFunction,
        "irq_work" => Vector::IrqWork,
        "x86_platform_ipi" => Vector::PlatformIpi,
        "thermal_apic" => Vector::Thermal,
        "threshold_apic" => Vector::Threshold,
        "deferred_error_apic" => Vector::DeferredError,
        "error_apic" => Vector::Error,
        "spurious_apic" => Vector::Spurious,
        _ => return None,
    })
}

/// Reads `printk_formats`: `0xffff800081a2b3c8 : "Rescheduling interrupts"`.
pub fn texts(formats: &str) -> HashMap<u64, String> {
    let text = |line: &str| {
        let (address, text) = line.split_once(" : ")?;
        let address = u64::from_str_radix(address.trim().strip_prefix("0x")?, 16).ok()?;
        Some((address, text.trim().trim_matches('"').to_string()))
    };
    formats.lines().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_texts_by_address() {
        let texts =
            texts("0xffff800081a2b3c8 : \"Rescheduling interrupts\"\n0x1 : \"%s: 0x%x\\n\"\nnonsense\n");
        assert_eq!(texts.len(), 2);
        assert_eq!(Vector::of_arm(&texts[&0xffff_8000_81a2_b3c8]), Vector::Reschedule);
    }

    #[test]
    fn flags_of_an_event_are_its_context() {
        let of = [0x00, 0x04, 0x10, 0x18, 0x48].map(context);
        assert_eq!(
            of,
            [
                KernelContext::Task,
                KernelContext::Task,
                KernelContext::Softirq,
                KernelContext::Hardirq,
                KernelContext::Nmi
            ]
        );
    }
}
