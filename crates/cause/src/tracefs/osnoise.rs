// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's osnoise tracer, without its measuring threads: one event for each interrupt and NMI at its
//! end, with its duration without the contexts that interrupted it. An NMI is covered from its entry on,
//! where trace events have only its handlers. (kernel/trace/trace_osnoise.c;
//! Documentation/trace/osnoise-tracer.rst)
//!
//! The kernel has only one such tracer and one set of options, so it is used only if no other session does,
//! and its options are restored with its instance. Its begin times (`start`) are of another clock, so only
//! durations are used.

use std::fs;
use std::path::Path;

use crate::event::{Event, EventKind};
use crate::{Error, Result};
use ftrace::instance::{Instance, OSNOISE_OPTIONS, WITHOUT_WORKLOAD};

/// Its events, and the kinds that are not seen without them.
pub const EVENTS: &[(&str, &str)] = &[("osnoise/irq_noise", "interrupts"), ("osnoise/nmi_noise", "NMIs")];

/// Their names.
pub const IRQ: &str = "irq_noise";
pub const NMI: &str = "nmi_noise";

const WHAT: &str = "watch with osnoise";

/// Makes an instance with that tracer.
pub fn instance(tracing: &Path) -> Result<Instance> {
    let refuse = |why: String, cure| Err(Error::new(WHAT, why, cure));
    let Ok(options) = untrusted::text(tracing.join(OSNOISE_OPTIONS)) else {
        let why = "this kernel has no osnoise tracer with options (CONFIG_OSNOISE_TRACER, 6.2)";
        return refuse(why.into(), "use --causes bpf or tracefs");
    };
    if let Some(user) = user(tracing) {
        let cure = "end that session, or use --causes bpf or tracefs";
        return refuse(format!("{user} uses the only osnoise tracer"), cure);
    }
    // If another program switched the workload off before, it stays so.
    let is_on = options.split_whitespace().any(|option| option == "OSNOISE_WORKLOAD");
    Instance::make(tracing, if is_on { WITHOUT_WORKLOAD } else { "here" }, |instance| {
        let path = tracing.join(OSNOISE_OPTIONS);
        if is_on && let Err(error) = fs::write(&path, "NO_OSNOISE_WORKLOAD") {
            let why = format!("{}: {error}", path.display());
            return Err(Error::new(WHAT, why, "use --causes bpf or tracefs"));
        }
        instance.write("current_tracer", "osnoise")
    })
}

/// The session that uses the osnoise or the timerlat tracer.
fn user(tracing: &Path) -> Option<String> {
    let instances = fs::read_dir(tracing.join("instances")).into_iter().flatten().flatten();
    let folders = std::iter::once(tracing.to_path_buf()).chain(instances.map(|entry| entry.path()));
    let has = |folder: &Path| {
        let tracer = untrusted::text(folder.join("current_tracer")).unwrap_or_default();
        matches!(tracer.trim(), "osnoise" | "timerlat")
    };
    folders.into_iter().find(|folder| has(folder)).map(|folder| folder.display().to_string())
}

/// The begin of an interrupt that ended at `ended_ns` after that time without NMIs. `events` are those before
/// it.
pub fn began_ns(events: &[Event], ended_ns: u64, duration_ns: u64) -> u64 {
    let mut began = ended_ns.saturating_sub(duration_ns);
    for event in events.iter().rev().take_while(|event| event.monotonic_ns <= ended_ns) {
        if event.monotonic_ns < began {
            break;
        }
        if let EventKind::Nmi { duration_ns, .. } = event.kind {
            began = began.saturating_sub(duration_ns);
        }
    }
    began
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nmi(monotonic_ns: u64, duration_ns: u64) -> Event {
        Event { monotonic_ns, cpu: 1, kind: EventKind::Nmi { handler: 0, duration_ns } }
    }

    #[test]
    fn nmis_move_the_begin_of_an_interrupt() {
        assert_eq!(began_ns(&[], 1_000, 300), 700);
        assert_eq!(began_ns(&[nmi(500, 50), nmi(900, 50)], 1_000, 300), 650);
        // An event that becomes visible because of another.
        assert_eq!(began_ns(&[nmi(680, 50), nmi(900, 50)], 1_000, 300), 600);
        assert_eq!(began_ns(&[], 100, 300), 0);
    }

    /// A folder like tracefs, with the files that are read before an instance is made.
    fn tracing(options: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for path in ["instances/rtla", "osnoise"] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        fs::write(folder.path().join(OSNOISE_OPTIONS), options).unwrap();
        fs::write(folder.path().join("current_tracer"), "nop\n").unwrap();
        folder
    }

    #[test]
    fn leaves_other_sessions_alone() {
        for tracer in ["osnoise\n", "timerlat\n"] {
            let tracing = tracing("NO_DEFAULTS OSNOISE_WORKLOAD\n");
            fs::write(tracing.path().join("instances/rtla/current_tracer"), tracer).unwrap();
            let said = instance(tracing.path()).unwrap_err().to_string();
            assert!(said.contains("instances/rtla uses the only osnoise tracer"), "{said}");
            let options = fs::read_to_string(tracing.path().join(OSNOISE_OPTIONS)).unwrap();
            assert_eq!(options, "NO_DEFAULTS OSNOISE_WORKLOAD\n");
        }
    }

    #[test]
    fn reports_a_kernel_without_the_tracer() {
        let folder = tempfile::tempdir().unwrap();
        let said = instance(folder.path()).unwrap_err().to_string();
        assert!(said.starts_with("cannot watch with osnoise: this kernel has no osnoise tracer"), "{said}");
    }
}
