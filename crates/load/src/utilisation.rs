// SPDX-License-Identifier: MIT OR Apache-2.0
//! How busy a GPU was while a load ran, and the source of the figure. Read once a second, from the
//! housekeeping CPUs.
//!
//! | who tells | what it is |
//! |---|---|
//! | `/proc/PID/fdinfo` of the load's own processes (`drm-engine-*`, `drm-cycles-*`) | the time for which their work kept an engine busy, as the kernel counted it |
//! | sysfs: amdgpu's `gpu_busy_percent`, `load` of Tegra's and of devfreq's GPUs | the whole device, for all users, in the driver's last moment |
//! | `nvidia-smi`, which runs beside the load | likewise |
//!
//! The first is of the load alone, and preferred. NVIDIA's library is not called: the program is one static
//! file, which can load none. tegrastats reads the file that is read here.
//!
//! Reference: the kernel's documentation, gpu/drm-usage-stats and gpu/amdgpu/thermal; none of it needs a
//! privilege.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gpu::is_software;

/// How busy a GPU was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Utilisation {
    /// Its device and source: `render of i915 0000:00:02.0, by this load`.
    pub of: String,
    /// Mean over the time for which it was looked at, in percent.
    pub busy_percent: f64,
}

/// The names of GPUs in devfreq: most by what they are, some of Tegra's by their chip.
const GPUS: [&str; 4] = ["gpu", "gp10b", "gv11b", "ga10b"];

/// How busy a load that used `renderers` kept a GPU, where they name themselves; `said` is what nvidia-smi
/// says. Else why that is unknown.
pub fn of_load(
    renderers: &[String],
    meter: &Meter,
    said: Option<Utilisation>,
) -> Result<Utilisation, &'static str> {
    if !renderers.is_empty() && renderers.iter().all(|renderer| is_software(renderer)) {
        // A device's work meanwhile was not this load's.
        return Err("software rendering");
    }
    // `NVIDIA GeForce GTX 1080` of the one is `GeForce GTX 1080/PCIe/SSE2` of the other.
    let names = |said: &&Utilisation| {
        let name = said.of.split(" (").next().unwrap_or_default().trim_start_matches("NVIDIA ");
        renderers.iter().any(|renderer| renderer.contains(name))
    };
    let named = said.as_ref().filter(names).cloned();
    let own = meter.own();
    let used = own.clone().filter(|own| own.busy_percent > 0.0);
    let told = named.or(used).or_else(|| of(&meter.devices)).or(said).or(own);
    told.ok_or("no driver reports it")
}

/// A mean that grows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn value(self) -> f64 {
        self.sum / f64::from(self.count.max(1))
    }
}

/// The means of several devices.
pub type DeviceMeans = BTreeMap<String, Mean>;

/// The busiest of `means`.
pub fn of(means: &DeviceMeans) -> Option<Utilisation> {
    let all = means.iter().map(|(of, mean)| Utilisation { of: of.clone(), busy_percent: mean.value() });
    all.max_by(|a, b| a.busy_percent.total_cmp(&b.busy_percent))
}

/// An engine of a device, by driver, address and class.
type EngineKey = (String, String, String);

/// The work of engines for each client, by its number.
type EngineCounters = BTreeMap<(EngineKey, String), Busy>;

/// An engine's work for one client.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Busy {
    Ns(u64),
    /// Cycles, of all that went by.
    Cycles {
        busy: u64,
        all: u64,
    },
}

/// One client of a driver: an open device, whatever number of descriptors it has.
#[derive(Debug, Clone, Default, PartialEq)]
struct Client {
    driver: String,
    device: String,
    id: String,
    engines: BTreeMap<String, Busy>,
    /// How many engines of a class there are, where it is more than one.
    capacity: BTreeMap<String, u64>,
}

/// Looks at GPUs again and again.
#[derive(Debug)]
pub struct Meter {
    root: PathBuf,
    /// Each client's engines at the last poll, and the time of that.
    last: Option<(Instant, EngineCounters)>,
    /// Seconds for which the load kept engines busy, of so many.
    busy_s: BTreeMap<EngineKey, f64>,
    watched_s: f64,
    devices: DeviceMeans,
}

impl Meter {
    /// Of the machine below `root`.
    pub fn new(root: &Path) -> Meter {
        Meter {
            root: root.to_path_buf(),
            last: None,
            busy_s: BTreeMap::new(),
            watched_s: 0.0,
            devices: DeviceMeans::new(),
        }
    }

    /// Looks at the devices, and at what these processes use; at the first poll only to know where counters
    /// stand.
    pub fn poll(&mut self, processes: &[u32], now: Instant) {
        let clients = processes.iter().flat_map(|process| clients(&self.root, *process));
        self.take(clients.collect(), now);
        for (device, percent) in devices(&self.root) {
            self.devices.entry(device).or_default().add(percent);
        }
    }

    /// The engine that the load itself kept busiest; an engine that it did not use all the time idled for the
    /// rest.
    fn own(&self) -> Option<Utilisation> {
        let ((driver, device, class), busy_s) = self.busy_s.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        let of = format!("{class} of {driver} {device}, by this load");
        Some(Utilisation { of, busy_percent: 100.0 * busy_s / self.watched_s.max(f64::MIN_POSITIVE) })
    }

    fn take(&mut self, clients: Vec<Client>, now: Instant) {
        let mut counters = EngineCounters::new();
        let mut capacities = BTreeMap::new();
        for client in clients {
            for (class, busy) in client.engines {
                let engine = (client.driver.clone(), client.device.clone(), class);
                let several = client.capacity.get(&engine.2).copied().unwrap_or(1).max(1);
                capacities.insert(engine.clone(), several as f64);
                // Descriptors of one client say the same.
                counters.insert((engine, client.id.clone()), busy);
            }
        }
        if let Some((then, before)) = &self.last {
            let passed_s = (now - *then).as_secs_f64();
            let mut shares: BTreeMap<EngineKey, f64> = BTreeMap::new();
            for (key, busy) in &counters {
                *shares.entry(key.0.clone()).or_default() += share(*busy, before.get(key), passed_s);
            }
            for (engine, share) in shares {
                let part = (share / capacities.get(&engine).copied().unwrap_or(1.0)).min(1.0);
                *self.busy_s.entry(engine).or_default() += part * passed_s;
            }
            self.watched_s += passed_s;
        }
        self.last = Some((now, counters));
    }
}

/// The part of `passed_s` for which an engine was busy. A client that was not there before began at nothing.
fn share(now: Busy, before: Option<&Busy>, passed_s: f64) -> f64 {
    let part = |busy: u64, all: f64| if all > 0.0 { busy as f64 / all } else { 0.0 };
    match (now, before) {
        (Busy::Ns(ns), Some(Busy::Ns(before))) => part(ns.saturating_sub(*before), passed_s * 1e9),
        (Busy::Ns(ns), _) => part(ns, passed_s * 1e9),
        (Busy::Cycles { busy, all }, Some(Busy::Cycles { busy: then, all: all_then })) => {
            part(busy.saturating_sub(*then), all.saturating_sub(*all_then) as f64)
        }
        // The number since the last poll is unknown.
        (Busy::Cycles { .. }, _) => 0.0,
    }
}

/// The clients of GPU drivers that a process has open.
fn clients(root: &Path, process: u32) -> Vec<Client> {
    let files = fs::read_dir(root.join(format!("proc/{process}/fdinfo"))).into_iter().flatten().flatten();
    files.filter_map(|file| client(&untrusted::text(file.path()).ok()?)).collect()
}

/// The client in a file of `fdinfo`, where it is a GPU's.
fn client(text: &str) -> Option<Client> {
    let mut client = Client::default();
    let mut cycles = BTreeMap::<String, [u64; 2]>::new();
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        let number = || value.split(' ').next()?.parse::<u64>().ok();
        match key.trim() {
            "drm-driver" => client.driver = value.to_string(),
            "drm-pdev" => client.device = value.to_string(),
            "drm-client-id" => client.id = value.to_string(),
            key => {
                let Some(number) = number() else { continue };
                if let Some(class) = key.strip_prefix("drm-engine-capacity-") {
                    client.capacity.insert(class.to_string(), number);
                } else if let Some(class) = key.strip_prefix("drm-engine-") {
                    client.engines.insert(class.to_string(), Busy::Ns(number));
                } else if let Some(class) = key.strip_prefix("drm-total-cycles-") {
                    cycles.entry(class.to_string()).or_default()[1] = number;
                } else if let Some(class) = key.strip_prefix("drm-cycles-") {
                    cycles.entry(class.to_string()).or_default()[0] = number;
                }
            }
        }
    }
    for (class, [busy, all]) in cycles {
        // Of a driver that counts both, time is what needs no other counter.
        client.engines.entry(class).or_insert(Busy::Cycles { busy, all });
    }
    (!client.driver.is_empty()).then_some(client)
}

/// How busy each device is that says so in sysfs, in percent.
fn devices(root: &Path) -> Vec<(String, f64)> {
    let entries = |folder: &str| {
        let mut names: Vec<_> = fs::read_dir(root.join(folder))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        names.sort();
        names
    };
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let read = |path: PathBuf| untrusted::text(path).ok();
    let mut found = Vec::new();
    // A card's connectors stand beside it as card0-DP-1.
    for card in entries("sys/class/drm").iter().filter(|path| !name(path).contains('-')) {
        if let Some(percent) = read(card.join("device/gpu_busy_percent")).and_then(|text| number(&text)) {
            found.push((format!("{}, whole device", name(card)), percent));
        }
    }
    for device in entries("sys/class/devfreq") {
        let of = format!("{}, whole device", name(&device));
        // Rockchip's Mali: `56@300000000Hz`. Tegra's: tenths of a percent.
        let mali = || number(read(device.join("load"))?.split_once('@')?.0);
        let tegra = || number(&read(device.join("device/load"))?).map(|tenths| tenths / 10.0);
        if GPUS.iter().any(|gpu| name(&device).contains(gpu))
            && let Some(percent) = mali().or_else(tegra)
        {
            found.push((of, percent));
        }
    }
    // Older Tegras, where devfreq has not told the same already.
    if found.is_empty()
        && let Some(tenths) = read(root.join("sys/devices/gpu.0/load")).and_then(|text| number(&text))
    {
        found.push(("gpu.0, whole device".to_string(), tenths / 10.0));
    }
    found
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse::<u32>().ok().map(f64::from)
}

#[cfg(test)]
mod tests;
