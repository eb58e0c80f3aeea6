// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's hwlat tracer (Documentation/trace/hwlat_detector.rst): a kernel thread that reads the clock
//! without pause for a stretch of each window, interrupts off, and tells the longest gap between two
//! readings.
//!
//! It runs in a tracing instance of our own. The one setting outside the instance, `tracing_thresh`, is
//! written while the tracer is on, since the kernel puts back what stood there before when the tracer goes
//! off. So the end of the instance undoes everything: at the end of a run, or where that was killed, at the
//! next start ([`remove_leftover`]); until then the tracer of a killed run goes on. Limits: the kernel lets
//! one instance use the tracer at a time; its own default threshold, for those who set none, becomes the one
//! that was used last; mode, width and window (`hwlat_detector/`) are those of the last program that
//! set them, and are only read.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use machine::CpuSet;
use machine::units::whole_us;
use rustix::fs::OFlags;

const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const INSTANCE: &str = "isolator-hwlat";

/// Shorthand: an error is the reason why the tracer is not available.
type Result<T> = std::result::Result<T, String>;

/// The tracer, on while it lives.
pub struct Hwlat {
    instance: PathBuf,
    /// Its output; absent while the tracer is set up or taken down, since the kernel changes no tracer whose
    /// output is open.
    pipe: Option<File>,
    watch: TimeShare,
    /// Its settings, as they were once it was on.
    settings: Vec<(PathBuf, String)>,
}

/// How it shares out its time.
#[derive(Debug, PartialEq)]
struct TimeShare {
    words: String,
    round_ns: u64,
}

/// A stretch of time without a known cause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gap {
    /// Where.
    pub cpu: u32,
    /// How long.
    pub latency_ns: u64,
    /// When the first gap above the threshold opened in the stretch of which this one is the longest.
    pub wall: SystemTime,
}

/// Removes the tracing instance of a run that was killed, which ends its tracer; says whether there was one.
pub fn remove_leftover() -> bool {
    // The kernel refuses it for an instance that a run still reads from.
    tracefs().is_some_and(|root| fs::remove_dir(root.join("instances").join(INSTANCE)).is_ok())
}

/// Where tracefs is. Looking into the second place mounts it there, so that the first one goes first.
fn tracefs() -> Option<&'static Path> {
    TRACEFS.iter().map(Path::new).find(|root| untrusted::is_there(root.join("instances")))
}

impl Hwlat {
    /// Starts it on `cpus` for gaps of `threshold_ns`, in whole microseconds, and longer ones.
    pub fn start(threshold_ns: u64, cpus: &[u32]) -> Result<Hwlat> {
        let root = tracefs().ok_or("tracefs is not mounted (mount -t tracefs nodev /sys/kernel/tracing)")?;
        let tracers = read(&root.join("available_tracers"))?;
        if !tracers.split_whitespace().any(|tracer| tracer == "hwlat") {
            return Err("this kernel has no hwlat tracer (CONFIG_HWLAT_TRACER)".into());
        }
        let detector = |name: &str| read(&root.join("hwlat_detector").join(name));
        // Without the file (before Linux 5.15) there is the one mode.
        let mode = detector("mode").unwrap_or("[round-robin]".into());
        let watch = watch(&mode, &detector("width")?, &detector("window")?, cpus.len())?;
        remove_leftover();
        let instance = root.join("instances").join(INSTANCE);
        fs::create_dir(&instance).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => "another isolator measures with it now".to_string(),
            kind => format!("no tracing instance can be made in {} ({kind})", root.display()),
        })?;
        let mut tracer = Hwlat { instance, pipe: None, watch, settings: Vec::new() };
        write(&tracer.file("tracing_on"), "0")?;
        write(&tracer.file("tracing_cpumask"), &cpus.iter().copied().collect::<CpuSet>().to_mask(0))?;
        fs::write(tracer.file("current_tracer"), "hwlat").map_err(|error| match error.kind() {
            ErrorKind::ResourceBusy => "another program uses the hwlat tracer".to_string(),
            kind => format!("the hwlat tracer does not start ({kind})"),
        })?;
        // It tells gaps whose whole microseconds are above this: not one that is longer by a part of one.
        let above_us = (threshold_ns / 1000).saturating_sub(1).max(1);
        write(&root.join("tracing_thresh"), &above_us.to_string())?;
        let path = tracer.file("trace_pipe");
        let pipe = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&path);
        tracer.pipe = Some(pipe.map_err(|e| format!("{} cannot be read ({})", path.display(), e.kind()))?);
        write(&tracer.file("tracing_on"), "1")?;
        let own = ["current_tracer", "tracing_on", "tracing_cpumask"].map(|name| tracer.file(name));
        let shared =
            ["tracing_thresh", "hwlat_detector/mode", "hwlat_detector/width", "hwlat_detector/window"];
        let paths = own.into_iter().chain(shared.map(|name| root.join(name)));
        tracer.settings = paths.filter_map(|path| Some((path.clone(), read(&path).ok()?))).collect();
        Ok(tracer)
    }

    /// Which part of the time it watches, in words.
    pub fn watches(&self) -> &str {
        &self.watch.words
    }

    /// How long it takes until it has watched every CPU once, in nanoseconds.
    pub fn round_ns(&self) -> u64 {
        self.watch.round_ns
    }

    /// The settings that another program changed since it was started, if any.
    pub fn taken(&self) -> Option<String> {
        changed(&self.settings)
    }

    /// The gaps since the last call.
    pub fn gaps(&self) -> Vec<Gap> {
        let (mut text, mut chunk) = (Vec::new(), [0; 16_384]);
        while let Some(mut pipe) = self.pipe.as_ref() {
            match pipe.read(&mut chunk) {
                Ok(0) => break,
                Ok(length) => text.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Nothing more to read now.
                Err(_) => break,
            }
        }
        String::from_utf8_lossy(&text).lines().filter_map(gap).collect()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.instance.join(name)
    }
}

impl Drop for Hwlat {
    fn drop(&mut self) {
        self.pipe = None;
        // The kernel ends the tracer with its instance; where that fails, the next start tries again.
        let _ = fs::remove_dir(&self.instance);
    }
}

/// How each of `cpus` CPUs is watched: for `width` of each `window`, in microseconds; in turn, or all at
/// once.
fn watch(mode: &str, width: &str, window: &str, cpus: usize) -> Result<TimeShare> {
    let mode =
        mode.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("unknown", |(mode, _)| mode);
    let turns = match mode {
        "round-robin" => cpus.max(1) as u64,
        "per-cpu" => 1,
        _ => {
            return Err(format!(
                "hwlat_detector/mode is {mode}, so that the tracer does not keep to the measured CPUs (echo \
                 round-robin > hwlat_detector/mode in tracefs)"
            ));
        }
    };
    let number = |text: &str| text.trim().parse::<u64>().ok().filter(|number| (1..1 << 40).contains(number));
    let (Some(width), Some(window)) = (number(width), number(window)) else {
        return Err("hwlat_detector/width or window cannot be understood".into());
    };
    let percent = (1e5 * width as f64 / window as f64 / turns as f64).round() / 1e3;
    let words = format!(
        "the hwlat tracer watches each CPU for {percent} % of the time, in stretches of {} ({mode}); a sample \
         is the longest gap of a stretch",
        whole_us(width)
    );
    Ok(TimeShare { words, round_ns: ((turns - 1) * window + width) * 1000 })
}

/// The first file that does not hold any more what it held.
fn changed(settings: &[(PathBuf, String)]) -> Option<String> {
    settings.iter().find_map(|(path, then)| {
        let now = read(path).unwrap_or_default();
        (now != *then).then(|| format!("{} is '{}' instead of '{}'", path.display(), now.trim(), then.trim()))
    })
}

/// One line of the tracer.
fn gap(line: &str) -> Option<Gap> {
    let cpu = line.split_once('[')?.1.split_once(']')?.0.parse().ok()?;
    let lengths = line.split_once("inner/outer(us):")?.1.split_once("ts:")?.0;
    let (inner, outer) = lengths.split_once('/')?;
    let length_us = inner.trim().parse::<u64>().ok()?.max(outer.trim().parse().ok()?);
    let (seconds, nanoseconds) = line.split_once("ts:")?.1.split_whitespace().next()?.split_once('.')?;
    let since_epoch =
        Duration::from_secs(seconds.parse().ok()?) + Duration::from_nanos(nanoseconds.parse().ok()?);
    Some(Gap { cpu, latency_ns: length_us.saturating_mul(1000), wall: UNIX_EPOCH.checked_add(since_epoch)? })
}

fn read(path: &Path) -> Result<String> {
    untrusted::text(path).map_err(|e| format!("{} cannot be read ({})", path.display(), e.kind()))
}

fn write(path: &Path, value: &str) -> Result<()> {
    fs::write(path, value).map_err(|e| format!("{} cannot be set to {value} ({})", path.display(), e.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of Linux 6.1 (three gaps) and 6.12, both PREEMPT_RT.
    const LINES: &str = "\
# tracer: hwlat
#           TASK-PID     CPU#  |||||||  TIMESTAMP  FUNCTION
           <...>-122     [001] dn.....    10.235105: #3     inner/outer(us): 11485/14146 ts:1795196562.658885835 count:317
           <...>-152     [001] dn.....    15.773934: #1     inner/outer(us): 12017/8029  ts:1795196127.397426839 count:265
           <...>-152     [000] d......    16.794243: #2     inner/outer(us): 4034/4050  ts:1795196128.422018180 count:295
           <...>-162     [000] d....    12.650264: #6     inner/outer(us):  105/226   ts:1795197462.355617932 count:1247
";

    #[test]
    fn a_tracer_that_another_program_changes_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("current_tracer");
        fs::write(&path, "hwlat\n").unwrap();
        let settings = [(path.clone(), "hwlat\n".to_string())];
        assert_eq!(changed(&settings), None);
        fs::write(&path, "nop\n").unwrap();
        assert_eq!(changed(&settings), Some(format!("{} is 'nop' instead of 'hwlat'", path.display())));
        fs::remove_file(&path).unwrap();
        assert!(changed(&settings).unwrap().contains("is '' instead"));
    }

    #[test]
    fn a_gap_is_the_longer_of_inner_and_outer() {
        let seen: Vec<_> = LINES.lines().filter_map(gap).collect();
        let figures: Vec<_> = seen.iter().map(|gap| (gap.cpu, gap.latency_ns / 1000)).collect();
        assert_eq!(figures, [(1, 14_146), (1, 12_017), (0, 4_050), (0, 226)]);
        let wall = humantime::format_rfc3339_nanos(seen[0].wall).to_string();
        assert_eq!(wall, "2026-11-20T17:42:42.658885835Z");
    }

    #[test]
    fn a_line_with_the_time_in_nmis_is_read_as_well() {
        let line = LINES.lines().nth(2).unwrap().to_string();
        assert_eq!(gap(&format!("{line} nmi-total:3 nmi-count:1")), gap(&line));
    }

    #[test]
    fn a_line_that_is_damaged_is_no_gap() {
        let line = LINES.lines().nth(2).unwrap();
        for (from, to) in [("[001]", "[x]"), ("/14146", "/"), ("(us)", ""), ("ts:", "ts"), (".658885835", "")]
        {
            assert_eq!(gap(&line.replace(from, to)), None, "{from}");
        }
        assert_eq!(gap(&line.replace("ts:1795196562", "ts:18446744073709551615")), None);
    }

    #[test]
    fn the_part_of_the_time_that_is_watched_is_said() {
        let of = |mode, width, cpus| watch(mode, width, "1000000\n", cpus).unwrap();
        let in_turn = of("none [round-robin] per-cpu\n", "500000\n", 3);
        let words = "the hwlat tracer watches each CPU for 16.667 % of the time, in stretches of 500,000 us (round-robin)";
        assert!(in_turn.words.starts_with(words), "{}", in_turn.words);
        assert_eq!(in_turn.round_ns, 2_500_000_000);
        let at_once = of("none round-robin [per-cpu]\n", "250000\n", 3);
        assert!(at_once.words.contains(" 25 % "), "{}", at_once.words);
        assert_eq!(at_once.round_ns, 250_000_000);
    }

    #[test]
    fn a_tracer_that_does_not_keep_to_the_measured_cpus_is_refused() {
        let why = watch("[none] round-robin per-cpu\n", "500000", "1000000", 1).unwrap_err();
        assert!(why.starts_with("hwlat_detector/mode is none"), "{why}");
        assert!(watch("[per-cpu]", "0", "1000000", 1).is_err());
        assert!(watch("[per-cpu]", "500000", "18446744073709551615", 1).is_err());
    }
}
