// SPDX-License-Identifier: MIT OR Apache-2.0
//! The next boot: loader, entries, initial RAM disks, and other programs that write there.

use machine::advice::Advice;
use machine::advice::Manual::{self, BootLine, Kernel, Service};
use machine::boot::Loader;
use machine::boot::quoting::{for_grub, in_double_quotes};
use machine::inventory::Reading;

use super::{ANYWHERE, Check, MIDDLING, SLIGHT};
use crate::facts::{CheckFacts, not_captured, some};
use crate::finding::{CheckResult, Conclusion, FindingState, read_in};
use crate::obtain;

pub(super) const ALL: &[Check] = &[
    Check {
        id: "boot-loader-known",
        question: "Is the boot loader supported?",
        weights: SLIGHT,
        why: "each loader keeps the boot line in a file of its own; an edit of the wrong file has no effect",
        source: "the loaders' own documentation; Isolator's reader of their files",
        look: loader_known,
    },
    Check {
        id: "boot-cmdline-drift",
        question: "Does the kernel run with the configured boot line?",
        weights: MIDDLING,
        why: "a parameter does nothing before the configuration is generated and booted",
        source: "redhat-performance/tuned issue 528, seapath/ansible issue 912",
        look: drift,
    },
    Check {
        id: "boot-default-entry",
        question: "Does the real-time kernel boot by default?",
        weights: MIDDLING,
        why: "the next boot starts another kernel unless the real-time kernel is the default",
        source: "the loader's entries, compared with the kernel that runs",
        look: default_entry,
    },
    Check {
        id: "boot-fallback-entry",
        question: "Is there a fallback entry to boot?",
        weights: ANYWHERE,
        why: "without a fallback, a boot line that does not boot bricks a machine that has no screen",
        source: "edk2-nvidia, L4TLauncher: it shows no menu with TIMEOUT 0 or fewer than two labels; tuned issue 294",
        look: fallback_entry,
    },
    Check {
        id: "boot-initrd-version",
        question: "Does every kernel have its initial RAM disk?",
        weights: ANYWHERE,
        why: "a kernel whose root driver is a module needs an initrd to mount its root file system",
        source: "Jetson AGX Orin PREEMPT_RT validation (tech.wimcorp.dev): the most frequent failure after a build",
        look: initrd,
    },
    Check {
        id: "boot-root-driver",
        question: "Can every kernel reach its root file system?",
        weights: ANYWHERE,
        why: "the boot fails if the root driver is neither built in nor in the initial RAM disk",
        source: "Jetson AGX Orin PREEMPT_RT validation (tech.wimcorp.dev): NVMe as a module",
        look: root_driver,
    },
    Check {
        id: "boot-param-owner",
        question: "Does only one tool write the boot line?",
        weights: MIDDLING,
        why: "two tools undo the changes of each other",
        source: "redhat-performance/tuned issues 174, 311",
        look: owner,
    },
];

const FILES: &str = "/boot, /etc/default/grub";

fn loader_known(facts: &CheckFacts) -> CheckResult {
    let boot = &facts.inventory.boot;
    if let Some(point) = boot.unmounted() {
        return Ok(Conclusion::warn(
            read_in("/etc/fstab, /proc/cmdline, /proc/self/mounts", format!("{point} is not mounted")),
            format!(
                "{point} is a partition of the boot loader, and it is not mounted: its files are not seen"
            ),
            Manual::Loader.advice(format!("mount {point}")),
        ));
    }
    let keeper = boot.keeper.as_ref();
    match boot.loader {
        Loader::Unknown if keeper.is_none() && facts.inventory.whole && facts.machine.container.is_none() => {
            Ok(Conclusion::warn(
                read_in(FILES, "no loader's files"),
                "no supported boot loader was found: isolator tune can only print instructions",
                Manual::Loader.advice("set the boot line by hand; isolator tune plan prints it"),
            ))
        }
        Loader::Unknown if keeper.is_none() => Err(no_loader(facts)),
        loader => {
            let says = match keeper {
                Some(keeper) => format!("{}, whose files {} writes", loader.facts().name, keeper.name),
                None => loader.facts().name.to_string(),
            };
            Ok(Conclusion::pass(read_in(boot.seen.join(", "), &says), says.clone()))
        }
    }
}

/// That no loader's files were there to look at.
fn no_loader(facts: &CheckFacts) -> Conclusion {
    if facts.machine.container.is_some() {
        return Conclusion::unknown(
            FILES,
            "the boot files of the host are not in the container",
            "run isolator doctor on the host",
        );
    }
    let boot = &facts.inventory.boot;
    let cure = "look at the loader's own files";
    match boot.loader {
        _ if !facts.inventory.whole => not_captured(FILES),
        Loader::Unknown => Conclusion::unknown(FILES, "no supported boot loader was found", cure),
        loader => {
            let says = format!("what {} boots next cannot be told from its files", loader.facts().name);
            Conclusion::unknown(boot.seen.join(", "), says, cure)
        }
    }
}

fn drift(facts: &CheckFacts) -> CheckResult {
    let running = facts.known_command_line()?;
    facts.unseen_host(FILES)?;
    let boot = &facts.inventory.boot;
    if let Some(point) = boot.unmounted() {
        return Err(Conclusion::unknown(
            point,
            "it is not mounted",
            format!("mount {point}, then look again"),
        ));
    }
    let default = boot.default_entry();
    let unclear =
        boot.sources.iter().find_map(|source| source.unclear.as_ref().map(|unclear| (source, unclear)));
    let drift = match (boot.drift(running), unclear) {
        (Some(drift), _) => drift,
        (None, Some((source, unclear))) => return Err(cannot_compare(source, unclear)),
        (None, None) => return Err(no_loader(facts)),
    };
    let files = boot.sources.iter().map(|source| source.file.clone());
    let file = default.map(|entry| entry.file.clone()).or(files.into_iter().next()).unwrap_or_default();
    let configured = default.map(|entry| entry.options.clone());
    let state = FindingState { configured, running: Some(running.to_string()), effective: None };
    let read = read_in(format!("{file}, /proc/cmdline"), running);
    let found = if let Some((runs, says)) = boot.booted_elsewhere(running) {
        Conclusion::warn(
            read,
            format!(
                "{runs} runs, and no entry of {file} has it ({says}): the machine booted from another file"
            ),
            Manual::Loader.advice(
                "find the partition from which the loader boots (a card, an eMMC, a USB disk) and mount it at /boot",
            ),
        )
    } else if !drift.never_generated.is_empty() {
        let says = format!(
            "edited, but never generated: {}{}",
            some(&drift.never_generated, 4),
            places(boot, &drift.never_generated)
        );
        Conclusion::warn(read, says, generate(boot))
    } else if !drift.not_running.is_empty() {
        let says = format!(
            "configured, but not running: {}{}",
            some(&drift.not_running, 4),
            places(boot, &drift.not_running)
        );
        let release = facts.machine.kernel.release.as_deref();
        match default.map(|entry| boot.boots_what_runs(entry, release, running)) {
            Some(Some(false)) => Conclusion::warn(
                read,
                says,
                Manual::Loader.advice(
                    "another entry than the default was booted: choose the default, or make this one it",
                ),
            ),
            None if boot.keeper.is_some() => Conclusion::warn(read, says, generate(boot)),
            _ => Conclusion::warn(read, says, Manual::Loader.advice("systemctl reboot")),
        }
    } else if !drift.not_configured.is_empty() {
        let says = format!("running, but not configured: {}", some(&drift.not_configured, 4));
        Conclusion::warn(
            read,
            says,
            BootLine.advice("write it into the boot loader's files, or it is gone with the next boot"),
        )
    } else if !drift.by_hand.is_empty() {
        let (words, stand) =
            (some(&drift.by_hand, 4), if drift.by_hand.len() == 1 { "stands" } else { "stand" });
        let says = format!("{words} {stand} in {file} alone, which the next update-grub writes anew");
        Conclusion::warn(read, says, BootLine.advice(told_to_generator(boot, &drift.by_hand)))
    } else if let Some((source, unclear)) = unclear {
        return Err(cannot_compare(source, unclear));
    } else if default.is_none() {
        Conclusion::pass(read, format!("the kernel runs with the line of {file}"))
    } else {
        Conclusion::pass(read, "the kernel runs with the configured boot line")
    };
    Ok(found.state(state))
}

/// How words come to GRUB's generator: its file is a shell's, and what it writes is a script of GRUB's.
fn told_to_generator(boot: &machine::Boot, words: &[String]) -> String {
    let default = boot.sources.iter().find(|source| !source.loader && !source.recovery);
    let file = default.map_or("/etc/default/grub", |source| &source.file);
    let name = default.and_then(|source| source.variable.as_deref()).unwrap_or("GRUB_CMDLINE_LINUX_DEFAULT");
    let quoted = words.iter().map(|word| for_grub(word)).collect::<Vec<_>>().join(" ");
    if quoted == words.join(" ") {
        return format!("add to {name} of {file} and run update-grub: {quoted}");
    }
    let quoted = in_double_quotes(&quoted);
    format!("write at the end of {file} and run update-grub: {name}=\"${name} {quoted}\"")
}

/// That a file's statement cannot be read here, and why.
fn cannot_compare(
    source: &machine::boot::EntrySource,
    unclear: &machine::boot::UnclearStatement,
) -> Conclusion {
    let name = source.variable.as_deref().unwrap_or("its line");
    Conclusion::unknown(
        source.file.clone(),
        format!("{name} cannot be read here: {}", unclear.why),
        format!("write it as one line, {name}=\"...\""),
    )
}

/// Where the first of these words stands, as far as a source says it.
fn places(boot: &machine::Boot, words: &[String]) -> String {
    let has = |source: &&machine::boot::EntrySource| {
        let line = source.line.as_deref().unwrap_or_default();
        machine::boot::line::all_words(line).any(|word| words.first().is_some_and(|first| first == word.raw))
    };
    boot.sources.iter().find(has).map_or(String::new(), |source| format!(" ({})", source.place()))
}

/// The command that makes the loader's files from the edited ones.
fn generate(boot: &machine::Boot) -> Advice {
    let run = |keeper: &machine::boot::Keeper| {
        let last =
            keeper.steps.iter().rev().find(|step| step.starts_with("run: ") && !step.contains("WORDS"));
        last.map(|step| format!("{}, then boot", &step["run: ".len()..]))
    };
    let by_loader = match boot.loader {
        Loader::GrubDebian => "update-grub, then boot",
        Loader::GrubBls => {
            "grub2-mkconfig -o /boot/grub2/grub.cfg --update-bls-cmdline (RHEL 9.3 and newer), or grubby \
             --update-kernel=ALL --args=..., then boot"
        }
        _ => "update-grub (grub2-mkconfig, grubby --update-kernel=ALL), then boot",
    };
    Manual::Loader.advice(boot.keeper.as_ref().and_then(run).unwrap_or(by_loader.to_string()))
}

fn default_entry(facts: &CheckFacts) -> CheckResult {
    let running =
        facts.machine.kernel.release.as_deref().ok_or_else(|| not_captured("/proc/sys/kernel/osrelease"))?;
    let installed =
        facts.inventory.kernels.iter().find(|kernel| kernel.real_time == Some(true) && kernel.image);
    if let (Some(kernel), false) = (installed, facts.real_time()) {
        let read = read_in(format!("/boot/vmlinuz-{}, /proc/sys/kernel/osrelease", kernel.release), running);
        return Ok(Conclusion::warn(
            read,
            format!("{} is installed, {running} runs", kernel.release),
            Kernel.advice(obtain::command(facts.machine)),
        ));
    }
    let boot = &facts.inventory.boot;
    let Some((entry, kernel)) =
        boot.default_entry().and_then(|entry| Some((entry, entry.kernel.as_deref()?)))
    else {
        return Err(no_loader(facts));
    };
    let read = read_in(&entry.file, kernel);
    let line = facts.machine.kernel.command_line.as_deref().unwrap_or_default();
    Ok(match boot.boots_what_runs(entry, Some(running), line) {
        Some(false) => {
            let says = format!("{running} runs, {kernel} is the default");
            Conclusion::warn(read, says, Manual::Loader.advice(boot.loader.facts().make_default))
        }
        _ => Conclusion::pass(read, format!("{kernel} is the default")),
    })
}

fn fallback_entry(facts: &CheckFacts) -> CheckResult {
    let boot = &facts.inventory.boot;
    if boot.loader == Loader::Unknown {
        return Err(no_loader(facts));
    }
    if boot.loader == Loader::RaspberryPi {
        return Ok(Conclusion::pass(
            read_in(boot.seen.join(", "), "tryboot"),
            "tryboot boots a trial once, and the old one after it",
        ));
    }
    let entries = boot.entries.len();
    let read = read_in(
        format!("the entries in {}", boot.folder),
        format!("{entries} entries, menu {:?} tenths of a second", boot.menu_tenths),
    );
    let fix = match boot.loader {
        Loader::L4tExtlinux | Loader::Extlinux => {
            "copy the entry as LABEL backup, with a kernel and initrd of its own, and set TIMEOUT 30"
        }
        _ => {
            "keep a second kernel installed (apt install the stock linux-image), and let the menu show for some seconds"
        }
    };
    if entries == 0 {
        return Err(Conclusion::unknown(
            format!("the entries in {}", boot.folder),
            "no entry could be read",
            crate::facts::AS_ROOT,
        ));
    }
    let shown = boot.menu_tenths != Some(0) || !matches!(boot.loader, Loader::L4tExtlinux | Loader::Extlinux);
    Ok(match (entries, shown) {
        (1, _) => Conclusion::fail(
            read,
            "there is a single entry: if it does not boot, the machine cannot be repaired from its menu",
            Manual::Loader.advice(fix),
        ),
        (_, false) => Conclusion::fail(
            read,
            "the menu is not shown (TIMEOUT 0), so that the second entry cannot be chosen",
            Manual::Loader.advice(fix),
        ),
        _ => Conclusion::pass(read, format!("{entries} entries")),
    })
}

/// Kernels that could be booted.
fn kernels<'a>(facts: &CheckFacts<'a>) -> Result<Vec<&'a machine::inventory::Installed>, Conclusion> {
    facts.unseen_host("/boot/vmlinuz-*")?;
    let kernels: Vec<_> = facts.inventory.kernels.iter().filter(|kernel| kernel.image).collect();
    if kernels.is_empty() {
        Err(Conclusion::unknown(
            "/boot/vmlinuz-*",
            "there is no kernel image",
            "look at the boot loader's own partition",
        ))
    } else {
        Ok(kernels)
    }
}

fn initrd(facts: &CheckFacts) -> CheckResult {
    let kernels = kernels(facts)?;
    let releases = |pick: &dyn Fn(&machine::inventory::Installed) -> bool| -> Vec<String> {
        kernels.iter().filter(|kernel| pick(kernel)).map(|kernel| kernel.release.clone()).collect()
    };
    let missing = releases(&|kernel| !kernel.initrd && kernel.modules);
    let older = releases(&|kernel| kernel.initrd_is_older == Some(true));
    let make = |release: &str| {
        Manual::Loader.advice(format!("update-initramfs -c -k {release}, or dracut -f --kver {release}"))
    };
    Ok(if let Some(first) = missing.first() {
        let read = read_in("/boot", format!("no initrd of {}", missing.join(", ")));
        let says = format!("{} has modules, and no initial RAM disk", some(&missing, 3));
        let built_in = |release: &String| {
            kernels
                .iter()
                .any(|kernel| kernel.release == *release && kernel.root_driver_is_module == Some(false))
        };
        if missing.iter().all(built_in) {
            Conclusion::pass(read, format!("{says}; its root driver is built in"))
        } else {
            Conclusion::fail(read, says, make(first))
        }
    } else if let Some(first) = older.first() {
        let read = read_in(
            "/boot, /lib/modules",
            format!("the initrd of {} is older than its modules", older.join(", ")),
        );
        Conclusion::warn(
            read,
            format!("the initial RAM disk of {} is older than its modules", some(&older, 3)),
            make(first),
        )
    } else {
        Conclusion::pass(
            read_in("/boot", format!("{} kernels", kernels.len())),
            "every kernel has one, and none is older than its modules",
        )
    })
}

fn root_driver(facts: &CheckFacts) -> CheckResult {
    let kernels = kernels(facts)?;
    let root = &facts.inventory.root_device;
    let drivers = if root.drivers.is_empty() { "unknown".to_string() } else { root.drivers.join(", ") };
    let lost: Vec<String> = kernels
        .iter()
        .filter(|kernel| kernel.root_driver_is_module == Some(true) && !kernel.initrd)
        .map(|kernel| kernel.release.clone())
        .collect();
    let read = read_in("/boot/config-*, /proc/self/mountinfo", format!("root driver: {drivers}"));
    if let Some(first) = lost.first() {
        let fix = Manual::Loader.advice(format!("update-initramfs -c -k {first}, or build the driver in"));
        return Ok(Conclusion::fail(
            read,
            format!("{}: the root driver is a module, and there is no initrd", some(&lost, 3)),
            fix,
        ));
    }
    if kernels.iter().any(|kernel| kernel.root_driver_is_module.is_none() && !kernel.initrd) {
        return Err(Conclusion::unknown(
            "/boot/config-*",
            format!("the drivers of the root file system ({drivers}) are not known"),
            "lsinitramfs the initrd and look for it",
        ));
    }
    Ok(Conclusion::pass(read, "the root driver is built in, or there is an initial RAM disk"))
}

fn owner(facts: &CheckFacts) -> CheckResult {
    let text = |path: &str| facts.hint(path).unwrap_or_default();
    let mut owners: Vec<&str> = Vec::new();
    let tuned = text("/etc/tuned/bootcmdline")
        .lines()
        .any(|line| line.starts_with("TUNED_BOOT_CMDLINE=") && line.len() > 22);
    if facts.inventory.services.runs("tuned") && tuned {
        owners.push("/etc/tuned/bootcmdline");
    }
    if facts.hint("/etc/default/grub.d/60_rt-conf.cfg").is_some() {
        owners.push("/etc/default/grub.d/60_rt-conf.cfg");
    }
    let sources = &facts.inventory.boot.sources;
    let ours = sources.iter().find(|source| source.file.contains("isolator"));
    owners.extend(ours.map(|source| source.file.as_str()));
    let looked = ["/etc/tuned/bootcmdline", "/etc/default/grub.d/60_rt-conf.cfg"];
    if owners.is_empty()
        && !looked
            .iter()
            .any(|path| matches!(facts.inventory.files.get(*path), Some(Reading::Text(_) | Reading::Absent)))
    {
        return Err(not_captured(looked[0]));
    }
    if owners.is_empty() {
        facts.unseen_host(looked[0])?;
    }
    Ok(match owners.len() {
        0 => Conclusion::pass(read_in(looked.join(", "), "none"), "no tool writes the boot line"),
        1 => Conclusion::pass(read_in(owners[0], "present"), format!("one tool writes it: {}", owners[0])),
        _ => Conclusion::warn(
            read_in(owners.join(", "), "present"),
            format!("several tools write it: {}", owners.join(", ")),
            Service.advice("keep one of them; for example systemctl disable --now tuned"),
        ),
    })
}
