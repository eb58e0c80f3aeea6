// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures that a load's programs report, and whether they amount to anything.
//!
//! Every figure is a count; names end in their unit where it is not the thing itself (`read_bytes`).
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use machine::units;
use serde::{Deserialize, Serialize};
use untrusted::Folder;

use crate::gpu::is_software;
use crate::utilisation::DeviceMeans;

/// The files of figures, in the load's folder.
pub const STRESS_NG_FILE: &str = "stress-ng.yaml";
/// See [`STRESS_NG_FILE`].
pub const FIO_FILE: &str = "fio.json";

/// The most bytes of such a file that are read; they have some thousand.
const MOST_BYTES: u64 = 1 << 20;

/// Where a part's figures come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FigureSource {
    /// stress-ng's `--yaml` file, [`STRESS_NG_FILE`], with operations of each of these stressors.
    StressNg {
        /// The stressors that were asked for.
        stressors: Vec<String>,
    },
    /// fio's `--output` file with `--output-format=json`, [`FIO_FILE`].
    Fio,
    /// An own engine: it prints a line of JSON with all its counts now and then.
    Engine,
    /// The `ipi` engine: as [`FigureSource::Engine`], but what counts is what arrived.
    Interrupts,
    /// The output of a program that renders or computes.
    Frames,
    /// A display server: it prints the display's number.
    Display,
    /// `nvidia-smi`: it prints how busy each GPU is, and may end: it is no part of the load.
    Utilisation,
    /// A given command, of which nothing is known.
    Nothing,
}

/// The figures that a part reported.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HeardFigures {
    /// Counts by name.
    pub counts: BTreeMap<String, u64>,
    /// The renderers or devices, as the driver names itself; several where one after the other does.
    pub renderers: Vec<String>,
    /// How busy it says GPUs are.
    pub busy: DeviceMeans,
    /// The last line it printed that said something.
    pub last_line: String,
}

impl HeardFigures {
    /// Takes one line of output in.
    pub fn line(&mut self, source: &FigureSource, line: &str) {
        let line = line.trim();
        match source {
            FigureSource::Engine | FigureSource::Interrupts => match serde_json::from_str(line) {
                Ok(counts) => self.counts = counts,
                Err(_) => self.remember(line),
            },
            FigureSource::Frames => {
                if let Some(frames) = gears(line) {
                    let all = self.counts.entry("frames".to_string()).or_default();
                    *all = all.saturating_add(frames);
                } else if let Some(renderer) = renderer(line) {
                    if !self.renderers.contains(&renderer) {
                        self.renderers.push(renderer);
                    }
                } else {
                    self.remember(line);
                }
            }
            FigureSource::Utilisation => match busy(line) {
                Some((gpu, percent)) => self.busy.entry(gpu).or_default().add(percent),
                None => self.remember(line),
            },
            _ => self.remember(line),
        }
    }

    fn remember(&mut self, line: &str) {
        if !line.is_empty() {
            self.last_line = line.chars().take(200).collect();
        }
    }

    /// Reads what the part left in files; after its end.
    pub fn collect(&mut self, source: &FigureSource, folder: &Folder) {
        let read = |file| {
            let bytes = folder.read(file, MOST_BYTES).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        match source {
            FigureSource::StressNg { .. } => self.counts.extend(operations(&read(STRESS_NG_FILE))),
            FigureSource::Fio => self.counts.extend(transferred(&read(FIO_FILE))),
            _ => {}
        }
    }

    /// The counts that grow as long as the part works; `None` where it has none. Not its failures, and not
    /// the least of several.
    pub fn growing(&self, source: &FigureSource) -> Option<BTreeMap<String, u64>> {
        let grows = |name: &str| match source {
            FigureSource::Interrupts => name == "rounds",
            _ => !name.ends_with("_wrong"),
        };
        let counts = self.counts.iter().filter(|(name, _)| grows(name));
        matches!(source, FigureSource::Engine | FigureSource::Interrupts)
            .then(|| counts.map(|(name, count)| (name.clone(), *count)).collect())
    }

    /// The part that did nothing; `None` where all did something, or where nothing can be known.
    pub fn lacks(&self, source: &FigureSource) -> Option<String> {
        let count = |name: &str| self.counts.get(name).copied().unwrap_or(0);
        let none_of = |name: &String| (count(name) == 0).then(|| format!("no {}", name.replace('_', " ")));
        match source {
            // One operation of the memory stressor may outlast a short run: then its CPU time tells.
            FigureSource::StressNg { stressors, .. } => stressors
                .iter()
                .filter(|name| count(&format!("{name}_cpu_ms")) == 0)
                .find_map(|name| none_of(&format!("{name}_operations"))),
            FigureSource::Fio => ["read_bytes", "written_bytes"].map(String::from).iter().find_map(none_of),
            FigureSource::Engine if self.counts.is_empty() => Some("no figures".to_string()),
            FigureSource::Engine => self.counts.keys().find_map(none_of),
            FigureSource::Interrupts => {
                // Function calls of other origin come now and then; one for every second round is ours.
                let (arrived, rounds) = (count("fewest_function_calls"), count("rounds"));
                (arrived == 0 || arrived < rounds / 2).then(|| {
                    format!(
                        "only {arrived} function calls arrived at a measured CPU in {rounds} rounds; root can read perf events there"
                    )
                })
            }
            FigureSource::Frames
            | FigureSource::Display
            | FigureSource::Utilisation
            | FigureSource::Nothing => None,
        }
    }

    /// The figures that matter, in words: `1,706 cpu operations`, `1.2 GB read`.
    pub fn describe(&self, source: &FigureSource) -> String {
        let shown = |name: &str| {
            if name.ends_with("_cpu_ms") {
                return false;
            }
            *source != FigureSource::Interrupts
                || matches!(name, "rounds" | "function_calls" | "shootdowns" | "reschedules")
        };
        let word = |(name, count): (&String, &u64)| match name.rsplit_once('_') {
            Some((what, "bytes")) => format!("{} {what}", bytes(*count)),
            _ => format!("{} {}", units::count(*count), name.replace('_', " ")),
        };
        let counts = self.counts.iter().filter(|(name, _)| shown(name));
        let mut words: Vec<String> = counts.map(word).collect();
        if *source == FigureSource::Interrupts {
            words.push("counted on the measured CPUs".to_string());
        }
        for renderer in &self.renderers {
            let kind = if is_software(renderer) { " (software rendering)" } else { "" };
            words.push(format!("by {renderer}{kind}"));
        }
        words.join(", ")
    }
}

/// Operations and CPU time of each stressor in stress-ng's YAML.
fn operations(yaml: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let mut stressor = String::new();
    for line in yaml.lines() {
        let Some((key, value)) = line.trim().trim_start_matches("- ").split_once(':') else { continue };
        let value = value.trim();
        match key {
            "stressor" => stressor = value.trim_matches('"').to_string(),
            "bogo-ops" => {
                counts.insert(format!("{stressor}_operations"), value.parse().unwrap_or(0));
            }
            "user-time" | "system-time" => {
                let seconds: f64 = value.parse().unwrap_or(0.0);
                let all: &mut u64 = counts.entry(format!("{stressor}_cpu_ms")).or_default();
                *all = all.saturating_add((seconds * 1e3) as u64);
            }
            _ => {}
        }
    }
    counts
}

#[derive(Deserialize)]
struct FioReport {
    jobs: Vec<FioJob>,
}

#[derive(Deserialize)]
struct FioJob {
    read: FioSide,
    write: FioSide,
}

#[derive(Deserialize)]
struct FioSide {
    io_bytes: u64,
}

/// The bytes that fio read and wrote. It may say that it was terminated before the JSON begins.
fn transferred(text: &str) -> BTreeMap<String, u64> {
    let json = text.find('{').map_or("", |at| &text[at..]);
    let Ok(report) = serde_json::from_str::<FioReport>(json) else { return BTreeMap::new() };
    let sum = |side: fn(&FioJob) -> u64| report.jobs.iter().map(side).fold(0, u64::saturating_add);
    BTreeMap::from([
        ("read_bytes".to_string(), sum(|job| job.read.io_bytes)),
        ("written_bytes".to_string(), sum(|job| job.write.io_bytes)),
    ])
}

/// Frames in a line of glxgears: `1234 frames in 5.0 seconds = 246.800 FPS`.
fn gears(line: &str) -> Option<u64> {
    let (frames, rest) = line.split_once(" frames in ")?;
    rest.ends_with("FPS").then(|| frames.parse().ok())?
}

/// The device in a line of glxgears and glmark2 (GL_RENDERER), vkmark (Device Name), clpeak (Device) or
/// vkpeak (device).
fn renderer(line: &str) -> Option<String> {
    let names = ["GL_RENDERER", "Device Name", "Device", "device"];
    let rest = names.iter().find_map(|name| line.strip_prefix(name))?.trim_start();
    Some(rest.strip_prefix([':', '='])?.trim().to_string())
}

/// A line of nvidia-smi: `0, NVIDIA H200, 87`.
fn busy(line: &str) -> Option<(String, f64)> {
    let (gpu, percent) = line.rsplit_once(", ")?;
    let (number, name) = gpu.split_once(", ")?;
    Some((format!("{name} ({number}), whole device"), percent.parse::<u32>().ok()?.into()))
}

fn bytes(count: u64) -> String {
    match count {
        0..1_000_000 => format!("{} B", units::count(count)),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(source: &FigureSource, lines: &[&str]) -> HeardFigures {
        let mut heard = HeardFigures::default();
        lines.iter().for_each(|line| heard.line(source, line));
        heard
    }

    #[test]
    fn reads_the_operations_of_each_stressor() {
        let yaml = "metrics:\n    - stressor: cpu\n      bogo-ops: 1706\n      bogo-ops-per-second-usr-sys-time: 1.0\n\
            \x20     user-time: 1.5\n      system-time: 0.1\n\
            \x20   - stressor: vm\n      bogo-ops: 0\n      user-time: 0.0\n      system-time: 0.01\n\
            \x20   - stressor: fork\n      bogo-ops: 0\n      user-time: 0.0\n      system-time: 0.0\n";
        let counts = operations(yaml);
        assert_eq!(counts["cpu_operations"], 1706);
        assert_eq!((counts["cpu_cpu_ms"], counts["vm_cpu_ms"]), (1600, 10));
        let source = |names: &[&str]| FigureSource::StressNg {
            stressors: names.iter().map(|name| name.to_string()).collect(),
        };
        let heard = HeardFigures { counts, ..HeardFigures::default() };
        assert_eq!(heard.lacks(&source(&["cpu", "vm"])), None);
        assert_eq!(heard.lacks(&source(&["cpu", "fork"])), Some("no fork operations".to_string()));
        assert_eq!(heard.lacks(&source(&["hdd"])), Some("no hdd operations".to_string()));
        assert_eq!(
            heard.describe(&source(&["cpu"])),
            "1,706 cpu operations, 0 fork operations, 0 vm operations"
        );
    }

    #[test]
    fn counts_beyond_all_bounds_end_at_the_largest_number() {
        let yaml = "- stressor: cpu\n  user-time: 1e30\n  system-time: 1e30\n";
        assert_eq!(operations(yaml)["cpu_cpu_ms"], u64::MAX);
        let half = format!(r#"{{"read":{{"io_bytes":{0}}},"write":{{"io_bytes":1}}}}"#, u64::MAX);
        assert_eq!(transferred(&format!(r#"{{"jobs":[{half},{half}]}}"#))["read_bytes"], u64::MAX);
        let frames = format!("{} frames in 5.0 seconds = 1 FPS", u64::MAX);
        assert_eq!(heard(&FigureSource::Frames, &[&frames, &frames]).counts["frames"], u64::MAX);
    }

    #[test]
    fn reads_fios_bytes_after_its_farewell() {
        let json = r#"{"jobs":[{"read":{"io_bytes":4096},"write":{"io_bytes":2500000000}}]}"#;
        let source = FigureSource::Fio;
        for text in [json.to_string(), format!("fio: terminating on signal 15\n\n{json}")] {
            let heard = HeardFigures { counts: transferred(&text), ..HeardFigures::default() };
            assert_eq!(heard.describe(&source), "4,096 B read, 2.5 GB written");
            assert_eq!(heard.lacks(&source), None);
        }
        let heard = HeardFigures { counts: transferred("fio: terminating"), ..HeardFigures::default() };
        assert_eq!(heard.lacks(&source), Some("no read bytes".to_string()));
    }

    #[test]
    fn an_engines_last_figures_count_and_what_is_none_is_kept_as_its_last_words() {
        let lines = ["{\"timers_fired\":1}", "{\"timers_fired\":1234567}", "out of threads", ""];
        let heard = heard(&FigureSource::Engine, &lines);
        assert_eq!(heard.describe(&FigureSource::Engine), "1,234,567 timers fired");
        assert_eq!(heard.last_line, "out of threads");
        assert_eq!(heard.lacks(&FigureSource::Engine), None);
        assert!(HeardFigures::default().lacks(&FigureSource::Engine).is_some());
    }

    #[test]
    fn interrupts_that_were_sent_but_did_not_arrive_are_no_load() {
        let judged = |line| heard(&FigureSource::Interrupts, &[line]).lacks(&FigureSource::Interrupts);
        assert_eq!(judged("{\"rounds\":100,\"fewest_function_calls\":600}"), None);
        assert!(judged("{\"rounds\":100,\"fewest_function_calls\":7}").unwrap().contains("only 7"));
        assert!(judged("{\"rounds\":0,\"fewest_function_calls\":0}").is_some());
    }

    #[test]
    fn software_rendering_is_called_so() {
        let lines =
            ["GL_RENDERER   = llvmpipe (LLVM 15.0.6, 256 bits)", "1200 frames in 5.0 seconds = 240.0 FPS"];
        let words = heard(&FigureSource::Frames, &lines).describe(&FigureSource::Frames);
        assert_eq!(words, "1,200 frames, by llvmpipe (LLVM 15.0.6, 256 bits) (software rendering)");
        for (line, name) in [
            ("    Device Name:    NVIDIA Orin", "NVIDIA Orin"),
            ("  Device: NVIDIA H200", "NVIDIA H200"),
            ("device       = NVIDIA GeForce RTX 3060", "NVIDIA GeForce RTX 3060"),
            (
                "  Device: pthread-skylake-avx512-AMD EPYC",
                "pthread-skylake-avx512-AMD EPYC (software rendering)",
            ),
        ] {
            let words =
                heard(&FigureSource::Frames, &[line, "Device Type: a GPU"]).describe(&FigureSource::Frames);
            assert_eq!(words, format!("by {name}"));
        }
    }

    #[test]
    fn nvidia_smi_tells_of_each_gpu_and_what_it_cannot_tell_is_no_utilisation() {
        let lines = ["0, NVIDIA H200, 87", "1, NVIDIA H200, [N/A]", "0, NVIDIA H200, 89", "Unknown Error"];
        let heard = heard(&FigureSource::Utilisation, &lines);
        let told = crate::utilisation::of(&heard.busy).unwrap();
        assert_eq!((told.of.as_str(), told.busy_percent), ("NVIDIA H200 (0), whole device", 88.0));
        assert_eq!(heard.busy.len(), 1);
        assert_eq!(heard.describe(&FigureSource::Utilisation), "");
    }
}
