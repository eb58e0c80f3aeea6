// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which lines of `config.txt` hold on this board: filters, and files that it includes.
//!
//! A filter replaces one of its own kind and is combined with those of other kinds; `[all]` takes all of them
//! away. `[tryboot]` holds for a trial boot alone. What depends on a monitor, a pin or the partition cannot
//! be known here: a setting that we need and that stands under such a filter is an error, not a guess.

use std::collections::BTreeMap;

use super::PiConfig;
use crate::identity::field;
use crate::tree::Tree;

/// How deep files may include one another.
const DEPTH: usize = 8;
/// The most bytes of all files together, as often as each is included, and what an include costs at least.
const MOST_BYTES: usize = 4 << 20;
const LEAST_BYTES: usize = 4 << 10;

/// The settings that the firmware takes for an ordinary boot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::boot) struct Settings {
    /// The file of the line, below the folder of `config.txt`.
    pub(in crate::boot) line: String,
    /// The kernel.
    pub(in crate::boot) kernel: Option<String>,
    /// The initial RAM disk.
    pub(in crate::boot) initrd: Option<String>,
    /// The loader that the firmware starts in place of Linux.
    pub(in crate::boot) another_loader: Option<OtherLoader>,
}

/// A loader that the firmware of a Raspberry Pi starts, which may read the firmware's line or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::boot) enum OtherLoader {
    UBoot,
    Uefi,
}

/// The facts of a board that filters ask for.
#[derive(Debug, Clone, Default)]
struct BoardFacts {
    /// The filters of its model; none where the model is not known.
    models: Option<Vec<&'static str>>,
    /// Its serial number.
    serial: Option<u64>,
    /// Its revision code.
    revision: Option<u32>,
}

/// The last value of each setting, or the filter that decides on it and is not known.
type Values = BTreeMap<String, Result<String, String>>;

impl Settings {
    /// Reads `config.txt` in `folder`; an error where a setting that decides depends on what is not known.
    pub(in crate::boot) fn read(tree: &mut Tree, folder: &str) -> Result<Settings, String> {
        let board = BoardFacts::of(tree);
        let mut values = Values::new();
        let mut filters = PiFilters::default();
        let config = tree.whole_text(&format!("{folder}/config.txt")).unwrap_or_default();
        let mut left = Some(MOST_BYTES.saturating_sub(config.len()));
        let mut include = |path: &str| {
            left = left?.checked_sub(LEAST_BYTES);
            left?;
            let text = tree.whole_text(&format!("{folder}/{path}"))?;
            left = left?.checked_sub(text.len());
            left.map(|_| text)
        };
        evaluate(&config, &board, &mut filters, &mut values, &mut include, DEPTH);
        if left.is_none() {
            return Err(format!("includes more than {} MiB", MOST_BYTES >> 20));
        }
        let get = |key: &str| match values.get(key) {
            Some(Err(filter)) => Err(format!("{key} depends on [{filter}], which cannot be known here")),
            Some(Ok(value)) => Ok(Some(value.clone())),
            None => Ok(None),
        };
        let prefix = get("os_prefix")?.unwrap_or_default();
        let line = get("cmdline")?.unwrap_or_else(|| "cmdline.txt".into());
        let kernel = get("kernel")?;
        let loader = |name: &String| {
            let name = name.to_lowercase();
            match () {
                () if name.contains("u-boot") || name.contains("uboot") => Some(OtherLoader::UBoot),
                () if name.ends_with(".fd") => Some(OtherLoader::Uefi),
                () => None,
            }
        };
        let another_loader = kernel.iter().chain(&get("armstub")?).find_map(loader);
        let below = |name: Option<String>| name.map(|name| format!("{prefix}{name}"));
        let initrd = below(get("initramfs").unwrap_or_default());
        Ok(Settings { line: format!("{prefix}{line}"), kernel: below(kernel), initrd, another_loader })
    }
}

fn evaluate(
    config: &str,
    board: &BoardFacts,
    filters: &mut PiFilters,
    values: &mut Values,
    include: &mut dyn FnMut(&str) -> Option<String>,
    depth: usize,
) {
    let config = PiConfig::read(config.trim_start_matches('\u{feff}'));
    for body in config.statements() {
        if let Some(filter) = body.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            filters.add(filter.trim(), board);
            continue;
        }
        let holds = filters.hold();
        if holds == Ok(false) {
            continue;
        }
        if let Some(path) = body.strip_prefix("include ") {
            if depth > 0
                && let Some(text) = include(path.trim())
            {
                evaluate(&text, board, filters, values, include, depth - 1);
            }
            continue;
        }
        let (key, value) = match body.split_once('=') {
            Some((key, value)) => (key.trim(), value.trim()),
            None => match body.split_once(char::is_whitespace) {
                Some(("initramfs", rest)) => {
                    ("initramfs", rest.split_whitespace().next().unwrap_or_default())
                }
                _ => continue,
            },
        };
        let same = matches!(values.get(key), Some(Ok(old)) if old == value);
        match holds {
            Err(_) if same => {}
            Err(filter) => drop(values.insert(key.to_string(), Err(filter))),
            Ok(_) => drop(values.insert(key.to_string(), Ok(value.to_string()))),
        }
    }
}

/// The filters in force, one of each kind: whether it holds, or its name where that is not known.
#[derive(Debug, Default)]
struct PiFilters(BTreeMap<String, Result<bool, String>>);

impl PiFilters {
    fn add(&mut self, filter: &str, board: &BoardFacts) {
        let filter = filter.to_lowercase();
        let unknown = || Err(filter.clone());
        let (kind, holds) = match filter.split_once(['=', ':']) {
            _ if filter == "all" => return self.0.clear(),
            Some(("board-type", number)) => (
                "board-type",
                match (board.revision, hexadecimal(number)) {
                    (Some(revision), Some(number)) => Ok(u64::from((revision >> 4) & 0xff) == number),
                    _ => unknown(),
                },
            ),
            // Which port a setting is for; it does not decide whether others hold.
            Some(("hdmi", _)) => ("hdmi", Ok(true)),
            Some((kind, _)) => (kind, unknown()),
            None if filter == "none" => ("none", Ok(false)),
            None if filter == "tryboot" => ("tryboot", Ok(false)),
            None if filter.starts_with("0x") => (
                "serial",
                match (board.serial, hexadecimal(&filter)) {
                    (Some(serial), Some(number)) => Ok(serial == number || serial & 0xffff_ffff == number),
                    _ => unknown(),
                },
            ),
            None if filter.starts_with("pi") || filter.starts_with("cm") => (
                "model",
                match &board.models {
                    Some(models) => Ok(models.contains(&filter.as_str())),
                    None => unknown(),
                },
            ),
            None => (filter.as_str(), unknown()),
        };
        // Pins are filters of their own each, all kinds of pins are one kind.
        let kind = if kind.starts_with("gpio") { "gpio" } else { kind };
        self.0.insert(kind.to_string(), holds);
    }

    /// Whether all hold; the one that decides and is not known, where none fails.
    fn hold(&self) -> Result<bool, String> {
        if self.0.values().any(|holds| *holds == Ok(false)) {
            return Ok(false);
        }
        self.0.values().find(|holds| holds.is_err()).cloned().unwrap_or(Ok(true))
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

impl BoardFacts {
    fn of(tree: &mut Tree) -> BoardFacts {
        let model =
            tree.hint("proc/device-tree/model").or_else(|| tree.hint("sys/firmware/devicetree/base/model"));
        let cpuinfo = tree.hint("proc/cpuinfo").unwrap_or_default();
        let number = |name: &str| field(&cpuinfo, name).and_then(|text| u64::from_str_radix(text, 16).ok());
        let serial = tree.hint("proc/device-tree/serial-number");
        BoardFacts {
            models: model.as_deref().and_then(models),
            serial: number("Serial").or_else(|| u64::from_str_radix(&serial?, 16).ok()),
            revision: number("Revision").and_then(|revision| u32::try_from(revision).ok()),
        }
    }
}

/// The filters that hold for a model.
fn models(model: &str) -> Option<Vec<&'static str>> {
    let name = model.split("Raspberry Pi ").nth(1)?;
    let name = name.split(" Rev").next().unwrap_or(name).trim();
    let module = name.strip_prefix("Compute Module");
    let start = |text: &str| module.is_none() && name.starts_with(text);
    let of_module = |text: &str| module.is_some_and(|rest| rest.trim().starts_with(text));
    Some(match () {
        () if start("Zero 2") => vec!["pi0", "pi0w", "pi02"],
        () if start("Zero W") => vec!["pi0", "pi0w"],
        () if start("Zero") => vec!["pi0"],
        () if start("400") => vec!["pi4", "pi400"],
        () if start("500") => vec!["pi5", "pi500"],
        () if start("5") => vec!["pi5"],
        () if start("4") => vec!["pi4"],
        () if start("3") && name.contains("Plus") => vec!["pi3", "pi3+"],
        () if start("3") => vec!["pi3"],
        () if start("2") => vec!["pi2"],
        () if start("Model") => vec!["pi1"],
        () if of_module("5") => vec!["pi5", "cm5"],
        () if of_module("4S") => vec!["pi4", "cm4s"],
        () if of_module("4") => vec!["pi4", "cm4"],
        () if of_module("3") && name.contains("Plus") => vec!["pi3", "cm3", "cm3+"],
        () if of_module("3") => vec!["pi3", "cm3"],
        () if module.is_some_and(|rest| rest.trim().is_empty() || rest.trim() == "1") => vec!["pi1", "cm1"],
        () => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    fn settings(model: &str, files: &[(&str, &str)]) -> Result<Settings, String> {
        let model = ("proc/device-tree/model".to_string(), format!("{model}\0"));
        let cpuinfo =
            ("proc/cpuinfo".to_string(), "Revision\t: c03114\nSerial\t\t: 10000000abcd1234\n".to_string());
        let files = files.iter().map(|(path, text)| (format!("boot/firmware/{path}"), text.to_string()));
        let files: Vec<(String, String)> = files.chain([model, cpuinfo]).collect();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        Settings::read(&mut made_of(&files).1, "boot/firmware")
    }

    fn line(model: &str, config: &str) -> String {
        settings(model, &[("config.txt", config)]).unwrap().line
    }

    const PI4: &str = "Raspberry Pi 4 Model B Rev 1.4";
    const PI5: &str = "Raspberry Pi 5 Model B Rev 1.0";

    #[test]
    fn takes_the_sections_of_its_model_alone() {
        let config = "cmdline=a.txt\n[pi5]\ncmdline=five.txt\n[pi4]\ncmdline=four.txt\n[cm4]\ncmdline=cm.txt\n[all]\nx=1\n";
        for (model, expected) in [
            (PI4, "four.txt"),
            (PI5, "five.txt"),
            ("Raspberry Pi Compute Module 4 Rev 1.0", "cm.txt"),
            ("Raspberry Pi 400 Rev 1.0", "four.txt"),
            ("Raspberry Pi 500 Rev 1.0", "five.txt"),
            ("Raspberry Pi Compute Module 5 Rev 1.0", "five.txt"),
            ("Raspberry Pi 3 Model B Plus Rev 1.3", "a.txt"),
            ("Raspberry Pi Zero 2 W Rev 1.0", "a.txt"),
        ] {
            assert_eq!(line(model, config), expected, "{model}");
        }
    }

    #[test]
    fn combines_filters_of_several_kinds_until_all() {
        for (config, expected) in [
            ("[none]\ncmdline=x.txt\n[pi4]\ncmdline=y.txt\n", "cmdline.txt"),
            ("[none]\n[all]\ncmdline=x.txt\n", "x.txt"),
            ("[pi5]\n[pi4]\ncmdline=x.txt\n", "x.txt"),
            ("[tryboot]\ncmdline=x.txt\n[pi4]\ncmdline=y.txt\n", "cmdline.txt"),
            ("[board-type=0x11]\ncmdline=x.txt\n", "x.txt"),
            ("[board-type=0x14]\ncmdline=x.txt\n", "cmdline.txt"),
            ("[0xabcd1234]\ncmdline=x.txt\n", "x.txt"),
            ("[0x10000000abcd1234]\ncmdline=x.txt\n", "x.txt"),
            ("[0x12345678]\ncmdline=x.txt\n", "cmdline.txt"),
            ("[gpio4=1]\n[pi5]\ncmdline=x.txt\n", "cmdline.txt"),
            ("[EDID=A-B]\nhdmi_mode=4\n", "cmdline.txt"),
            ("[gpio4=1]\ncmdline=x.txt\n[all]\ncmdline=y.txt\n", "y.txt"),
            ("cmdline=x.txt # why\n#cmdline=y.txt\n", "x.txt"),
            ("[HDMI:0]\ncmdline=x.txt\n", "x.txt"),
            ("[PI4]\r\ncmdline=x.txt\r\n", "x.txt"),
        ] {
            assert_eq!(line(PI4, config), expected, "{config}");
        }
    }

    #[test]
    fn refuses_to_guess_what_a_monitor_or_pin_decides() {
        for (config, said) in [
            ("[gpio4=1]\ncmdline=x.txt\n", "cmdline depends on [gpio4=1]"),
            ("[EDID=DEL-DELL_U2422H]\ncmdline=x.txt\n[all]\n", "cmdline depends on [edid=del-dell_u2422h]"),
            ("[partition=2]\nos_prefix=b/\n", "os_prefix depends on [partition=2]"),
            ("[later]\nos_prefix=b/\n", "os_prefix depends on [later]"),
        ] {
            let error = settings(PI4, &[("config.txt", config)]).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
        assert_eq!(line(PI4, "cmdline=x.txt\n[gpio4=1]\ncmdline=x.txt\n"), "x.txt");
        // The board of a captured tree may not be known.
        assert!(settings("", &[("config.txt", "[pi4]\ncmdline=x.txt\n")]).is_err());
    }

    #[test]
    fn puts_the_prefix_before_the_line_kernel_and_ram_disk() {
        let config = "[all]\nos_prefix=current/\n[tryboot]\nos_prefix=new/\n[all]\nkernel=vmlinuz\ncmdline=cmdline.txt\ninitramfs initrd.img followkernel\n";
        let read = settings(PI5, &[("config.txt", config)]).unwrap();
        assert_eq!(read.line, "current/cmdline.txt");
        assert_eq!(
            (read.kernel.as_deref(), read.initrd.as_deref()),
            (Some("current/vmlinuz"), Some("current/initrd.img"))
        );
        assert_eq!(read.another_loader, None);
    }

    #[test]
    fn reads_included_files_and_stops_at_a_circle() {
        let files = [
            ("config.txt", "[pi4]\ninclude more.txt\n"),
            ("more.txt", "cmdline=more-line.txt\ninclude config.txt\n"),
        ];
        assert_eq!(settings(PI4, &files).unwrap().line, "more-line.txt");
        assert_eq!(settings(PI5, &files).unwrap().line, "cmdline.txt");
    }

    #[test]
    fn includes_have_an_end() {
        for often in [2, 2_000] {
            let includes = "include more.txt\n".repeat(often);
            let more = "#".repeat(MOST_BYTES / 4 * 3 / often.min(2));
            let files = [("config.txt", includes.as_str()), ("more.txt", more.as_str())];
            let is_read = settings(PI4, &files);
            assert_eq!(is_read.is_ok(), often == 2, "{is_read:?}");
        }
    }

    #[test]
    fn knows_when_the_firmware_starts_another_loader() {
        for (config, loader) in [
            ("kernel=u-boot-rpi-4.bin\n", OtherLoader::UBoot),
            ("[pi4]\nkernel=uboot_rpi_4.bin\n", OtherLoader::UBoot),
            ("armstub=RPI_EFI.fd\n", OtherLoader::Uefi),
        ] {
            let read = settings(PI4, &[("config.txt", config)]).unwrap();
            assert_eq!(read.another_loader, Some(loader), "{config}");
        }
        let error = settings("", &[("config.txt", "[pi4]\nkernel=uboot_rpi_4.bin\n")]).unwrap_err();
        assert!(error.starts_with("kernel depends on [pi4]"), "{error}");
    }
}
