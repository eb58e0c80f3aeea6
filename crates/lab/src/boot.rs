// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boot lines: by name, or as text in which the guest's CPUs are filled in.

use machine::CpuSet;

use crate::architecture::Architecture;
use crate::{Error, Result, scope};

/// Boot lines by name: each holds the ones before it.
pub const LINES: &[(&str, &str)] = &[
    ("none", ""),
    ("isolcpus", "isolcpus=managed_irq,domain,{isolated} irqaffinity={house_keeping}"),
    ("nohz_full", "nohz_full={isolated} rcu_nocbs={isolated}"),
    ("full", "tsc=reliable nowatchdog nosoftlockup skew_tick=1"),
];

/// The CPUs of a guest that are isolated: the last one.
pub fn isolated(cpus: u32) -> CpuSet {
    [cpus - 1].into_iter().collect()
}

/// The others.
pub fn house_keeping(cpus: u32) -> CpuSet {
    (0..cpus - 1).collect()
}

/// The boot line called `asked`, or that text, for a guest with so many CPUs. A single word that is no
/// parameter with a value is taken for a name, so that a mistyped one does not boot as a parameter that no
/// kernel knows.
pub fn line(asked: &str, cpus: u32) -> Result<String> {
    let text = match LINES.iter().position(|(name, _)| *name == asked) {
        Some(last) => LINES[..=last].iter().map(|(_, line)| *line).collect::<Vec<_>>().join(" "),
        None if asked.is_empty() || asked.contains(['=', ' ']) => asked.to_string(),
        None => {
            let names = LINES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            let cure = format!("choose {names}, or give text as 'isolcpus={{isolated}} nosmt'");
            return Err(Error::on(
                "use the boot line",
                format!("'{asked}'"),
                "there is none of that name",
                cure,
            ));
        }
    };
    let filled = text
        .replace("{isolated}", &isolated(cpus).to_string())
        .replace("{house_keeping}", &house_keeping(cpus).to_string());
    Ok(filled.trim().to_string())
}

/// A guest's whole boot line: the requested words, and after them, so that none takes it away, what the lab
/// needs.
pub fn whole(architecture: Architecture, asked: &str) -> String {
    let console = scope::console(architecture);
    // Where the host is busy an x86 kernel may see too few ticks while it tries its timer, and panic.
    let timer = match architecture {
        Architecture::X86_64 => "no_timer_check ",
        Architecture::Aarch64 => "",
    };
    format!("{asked} console={console} loglevel=5 {timer}nokaslr panic=-1").trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_line_holds_those_before_it_and_names_the_guests_cpus() {
        assert_eq!((line("none", 2).unwrap(), line("", 2).unwrap()), (String::new(), String::new()));
        assert_eq!(
            line("nohz_full", 4).unwrap(),
            "isolcpus=managed_irq,domain,3 irqaffinity=0-2 nohz_full=3 rcu_nocbs=3"
        );
        assert_eq!(line("isolcpus={isolated} nosmt", 2).unwrap(), "isolcpus=1 nosmt");
    }

    #[test]
    fn a_mistyped_name_is_refused() {
        assert_eq!(
            line("ful", 2).unwrap_err().to_string(),
            "cannot use the boot line 'ful': there is none of that name; choose none, isolcpus, nohz_full, full, or give text as 'isolcpus={isolated} nosmt'"
        );
    }
}
