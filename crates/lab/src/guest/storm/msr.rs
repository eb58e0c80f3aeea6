// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registers of the isolated CPU, read from another one: the kernel sends it there by an IPI.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::guest::Result;
use crate::guest::storm::{Context, Storm, StormKind};

pub const MSR: StormKind = StormKind {
    name: "msr",
    about: "reads a model-specific register of the isolated CPU, and its frequency where the kernel shows one",
    modules: &["msr"],
    ready: |context| Ok(Box::new(MsrReads::ready(context.target)?)),
    ..StormKind::USUAL
};

/// IA32_APIC_BASE, in which a bit says that the CPU's interrupt controller is on: every processor has it.
const APIC_BASE: u64 = 0x1b;
const APIC_ON: u64 = 1 << 11;

struct MsrReads {
    file: File,
    frequency: PathBuf,
    read: u64,
    refused: u64,
    frequencies: u64,
}

impl MsrReads {
    fn ready(cpu: u32) -> Result<MsrReads> {
        let path = format!("/dev/cpu/{cpu}/msr");
        let file = File::open(&path).map_err(|e| format!("{path}: {e}"))?;
        let frequency = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq").into();
        Ok(MsrReads { file, frequency, read: 0, refused: 0, frequencies: 0 })
    }
}

impl Storm for MsrReads {
    fn round(&mut self, _: &mut Context) -> Result<()> {
        let mut value = [0; 8];
        match self.file.read_exact_at(&mut value, APIC_BASE) {
            Ok(()) => {
                if u64::from_ne_bytes(value) & APIC_ON == 0 {
                    return Err("IA32_APIC_BASE of a CPU that runs says that it is off".into());
                }
                self.read += 1;
            }
            // A kernel may keep such reads from an isolated CPU: that is an answer.
            Err(why) if why.kind() == ErrorKind::ResourceBusy => self.refused += 1,
            Err(why) => return Err(why.into()),
        }
        self.frequencies += u64::from(fs::read_to_string(&self.frequency).is_ok());
        Ok(())
    }

    fn end(&mut self, _: u64) -> Result<String> {
        let MsrReads { read, refused, frequencies, .. } = self;
        let refused =
            if *refused == 0 { String::new() } else { format!("; {refused} refused by the kernel") };
        let frequency = match frequencies {
            0 => "this machine shows no frequency".to_string(),
            n => format!("its frequency read {n} times"),
        };
        Ok(format!("a register read {read} times{refused}; {frequency}"))
    }
}
