// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs of each load on this machine, within its memory and disk space.
//!
//! stress-ng's options are those that all of 0.13 to 0.19 have.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

use ethercat::interface;
use machine::CpuSet;

use crate::catalog::{self, Load, gpu_engine};
use crate::figures::{FIO_FILE, FigureSource, STRESS_NG_FILE};
use crate::gpu::GpuWork;
use crate::part::{LoadOrder, LoadProgram, SELF};
use crate::{LoadError, Placement, WORKER_VERB, cgroup, display, find_program, room};

const MIB: u64 = 1 << 20;

/// The file that fio reads and writes, and its size.
const FIO_DATA: &str = "fio.data";
const STORAGE_BYTES: u64 = 256 * MIB;

/// Bytes that each of stress-ng's file writers writes before it begins anew.
const WRITER_BYTES: u64 = 64 * MIB;

/// A load takes at most this part of the available memory.
const MEMORY_SHARE: u64 = 4;

/// Bytes of a memory worker where there is plenty, more than any level 2 cache holds.
const MEMORY_WORKER_BYTES: u64 = 256 * MIB;

/// With less than this a worker's memory would stay within caches.
const MEMORY_WORKER_LEAST: u64 = 16 * MIB;

/// The order for `load`; `None` for idle.
pub fn order(load: &Load, place: &Placement) -> Result<Option<LoadOrder>, LoadError> {
    if let Some((reason, cure)) = catalog::missing(load) {
        return Err(not_available(load, reason, cure));
    }
    if place.house_keeping.is_empty() {
        return Err(not_available(load, "no housekeeping CPU is left".into(), "measure fewer CPUs".into()));
    }
    let mut order = empty(place);
    let workers = place.house_keeping.len();
    match load {
        Load::Idle => return Ok(None),
        Load::Cpu => stress(&mut order, &[("cpu", workers, &[])]),
        Load::System => stress(&mut order, &[("cpu", workers, &[]), ("fork", workers, &[])]),
        Load::Memory => stress(&mut order, &[memory(load, workers)?.stressor(workers)]),
        Load::Io => {
            room_on_disk(load, place, WRITER_BYTES * writers(workers) as u64)?;
            stress(&mut order, &io(workers));
            order.saturates = false;
        }
        Load::L2 => {
            room_on_disk(load, place, WRITER_BYTES * writers(workers) as u64)?;
            let memory = memory(load, workers)?;
            let [sync, files] = io(workers);
            stress(&mut order, &[("cpu", workers, &[]), memory.stressor(workers), sync, files]);
        }
        Load::Storage => storage(load, place, &mut order)?,
        Load::Net => engine(&mut order, "net", &[&place.house_keeping], FigureSource::Engine),
        Load::Timers => engine(&mut order, "timers", &[&place.house_keeping], FigureSource::Engine),
        Load::Ipi => {
            engine(&mut order, "ipi", &[&place.house_keeping, &targets(place)], FigureSource::Interrupts)
        }
        Load::Ethercat => ethercat(place, &mut order)?,
        Load::Gpu(None) => gpu(&mut order),
        Load::Gpu(Some(command)) | Load::Custom(command) => order.parts.push(LoadProgram {
            name: load.name().to_string(),
            command: vec!["/bin/sh".to_string(), "-c".to_string(), command.clone()],
            environment: Vec::new(),
            is_in_folder: false,
            source: FigureSource::Nothing,
        }),
    }
    order.loads_gpu = matches!(load, Load::Gpu(_));
    if order.loads_gpu {
        nvidia_smi(&mut order);
    }
    Ok(Some(order))
}

fn empty(place: &Placement) -> LoadOrder {
    static ORDERS: AtomicU32 = AtomicU32::new(0);
    let number = ORDERS.fetch_add(1, Ordering::Relaxed);
    // Named by number: a cgroup, where other users make nothing.
    let name = format!("{}{}-{number}", cgroup::NAME, std::process::id());
    LoadOrder {
        house_keeping: place.house_keeping.clone(),
        folder: 0,
        cgroup: cgroup::folder(&name),
        parts: Vec::new(),
        saturates: false,
        loads_gpu: false,
        remark: None,
    }
}

/// A stressor's name, its number of workers, its options.
type Stressor<'a> = (&'static str, usize, &'a [(&'static str, u64)]);

fn stress(order: &mut LoadOrder, stressors: &[Stressor]) {
    let mut command = vec![tool("stress-ng")];
    for (name, workers, options) in stressors {
        command.extend([format!("--{name}"), workers.to_string()]);
        command.extend(options.iter().flat_map(|(option, value)| [format!("--{option}"), value.to_string()]));
    }
    command.extend(
        ["--timeout", "0", "--metrics-brief", "--temp-path", ".", "--yaml", STRESS_NG_FILE].map(String::from),
    );
    let stressors = stressors.iter().map(|(name, ..)| name.to_string()).collect();
    order.parts.push(part("stress-ng", command, true, FigureSource::StressNg { stressors }));
    order.saturates = true;
}

/// File writers: a disk is busy with a few.
fn writers(workers: usize) -> usize {
    workers.min(4)
}

fn io(workers: usize) -> [Stressor<'static>; 2] {
    [("io", writers(workers), &[]), ("hdd", writers(workers), &[("hdd-bytes", WRITER_BYTES)])]
}

struct MemoryShare([(&'static str, u64); 1]);

impl MemoryShare {
    fn stressor(&self, workers: usize) -> Stressor<'_> {
        ("vm", workers, &self.0)
    }
}

/// Memory for `workers`. Versions of stress-ng differ on whether `--vm-bytes` is for each worker or for all:
/// the bound holds for the larger reading.
fn memory(load: &Load, workers: usize) -> Result<MemoryShare, LoadError> {
    let share = room::available_memory() / MEMORY_SHARE / workers as u64;
    if share < MEMORY_WORKER_LEAST {
        let reason = format!("a quarter of the available memory is {} MiB for a worker", share / MIB);
        return Err(not_available(
            load,
            reason,
            "free some memory or raise the cgroup's memory limit".into(),
        ));
    }
    Ok(MemoryShare([("vm-bytes", share.min(MEMORY_WORKER_BYTES))]))
}

fn room_on_disk(load: &Load, place: &Placement, bytes: u64) -> Result<(), LoadError> {
    let (free, needed) = (room::free_bytes(&place.scratch), 2 * bytes);
    if free >= needed {
        return Ok(());
    }
    let folder = place.scratch.display();
    let reason = format!("{folder} has {} MiB free, {} MiB are needed", free / MIB, needed / MIB);
    Err(not_available(load, reason, "free some space, or choose another folder with -o".into()))
}

fn storage(load: &Load, place: &Placement, order: &mut LoadOrder) -> Result<(), LoadError> {
    if room::in_memory(&place.scratch) {
        let reason = format!("{} is in memory, so no disk would be loaded", place.scratch.display());
        return Err(not_available(load, reason, "choose a folder on a disk with -o".into()));
    }
    room_on_disk(load, place, STORAGE_BYTES)?;
    let direct = room::direct(&place.scratch);
    // psync in threads is in every build of fio on every file system; four of them keep a disk's queue
    // filled.
    let command = format!(
        "--name=storage --rw=randrw --bs=4k --ioengine=psync --numjobs=4 --thread --group_reporting \
         --fallocate=none --time_based --runtime=30d --size={STORAGE_BYTES} --direct={} --output-format=json",
        u8::from(direct)
    );
    let mut command: Vec<String> = command.split_whitespace().map(String::from).collect();
    command.insert(0, tool("fio"));
    command.push(format!("--filename={FIO_DATA}"));
    command.push(format!("--output={FIO_FILE}"));
    if !direct {
        command.push("--fsync=32".to_string());
    }
    order.parts.push(part("fio", command, true, FigureSource::Fio));
    let how =
        if direct { "direct I/O" } else { "through the page cache, the file system refuses direct I/O" };
    order.remark = Some(how.to_string());
    Ok(())
}

fn engine(order: &mut LoadOrder, name: &str, cpus: &[&CpuSet], source: FigureSource) {
    let mut command: Vec<String> = [SELF, WORKER_VERB, "engine", name].map(String::from).to_vec();
    command.extend(cpus.iter().map(|set| set.to_string()));
    order.parts.push(part(name, command, false, source));
}

fn ethercat(place: &Placement, order: &mut LoadOrder) -> Result<(), LoadError> {
    let mut command: Vec<String> = [SELF, WORKER_VERB, "engine", "ethercat"].map(String::from).to_vec();
    if let Some(device) = &place.device {
        let found = interface::look(&device.name).and_then(|found| found.check(device.is_forced));
        found.map_err(|error| not_available(&Load::Ethercat, error.why, error.cure))?;
        command.push(device.name.clone());
        command.extend(device.is_forced.then(|| "forced".to_string()));
    }
    let segment =
        place.device.as_ref().map_or("a simulated segment".to_string(), |device| device.name.clone());
    order.remark = Some(format!("with {segment}"));
    order.parts.push(part("ethercat", command, false, FigureSource::Engine));
    Ok(())
}

/// The CPUs whose interrupts are counted.
fn targets(place: &Placement) -> CpuSet {
    if !place.measured.is_empty() {
        return place.measured.clone();
    }
    let online = untrusted::text("/sys/devices/system/cpu/online").unwrap_or_default();
    let online: CpuSet = online.parse().unwrap_or_default();
    let others = online.without(&place.house_keeping);
    if others.is_empty() { online } else { others }
}

/// Runs a program again and again. One that ends at once, with whatever status, had nothing to compute on.
const AGAIN: &str =
    r#"while :; do began=$(date +%s); "$0" || exit; [ "$(date +%s)" -gt $((began + 1)) ] || exit 1; done"#;

/// The programs that load a GPU here.
fn gpu(order: &mut LoadOrder) {
    // Missing programs were reported already.
    let engine = gpu_engine().unwrap_or(GpuWork::Renders("glxgears"));
    let render = |name: &str| {
        let arguments: &[&str] = if name == "glxgears" { &["-info"] } else { &["--run-forever"] };
        let mut command = vec![tool(name)];
        command.extend(arguments.iter().map(|argument| argument.to_string()));
        let mut part = part(name, command, true, FigureSource::Frames);
        // As many frames as it can, for Mesa's drivers and NVIDIA's.
        part.environment = [("vblank_mode", "0"), ("__GL_SYNC_TO_VBLANK", "0")]
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .to_vec();
        part
    };
    match engine {
        GpuWork::Renders(name) => order.parts.push(render(name)),
        GpuWork::Computes(name) => {
            let command = vec!["/bin/sh".to_string(), "-c".to_string(), AGAIN.to_string(), tool(name)];
            order.parts.push(part(name, command, true, FigureSource::Frames));
        }
        GpuWork::RendersInMemory { name, beside_a_device } => {
            order.parts.push(display::part(&tool("Xvfb")));
            order.parts.push(render(name));
            let idle =
                "there is no display, and neither clpeak nor vkpeak to compute with: the GPU stays idle";
            order.remark = beside_a_device.then(|| idle.to_string());
        }
    }
}

/// Says how busy NVIDIA's GPUs are, a line a second.
fn nvidia_smi(order: &mut LoadOrder) {
    if !untrusted::is_there("/dev/nvidia0") || find_program("nvidia-smi").is_none() {
        return;
    }
    let arguments = ["--query-gpu=index,name,utilization.gpu", "--format=csv,noheader,nounits", "--loop=1"];
    let mut command = vec![tool("nvidia-smi")];
    command.extend(arguments.map(String::from));
    order.parts.push(part("nvidia-smi", command, false, FigureSource::Utilisation));
}

fn part(name: &str, command: Vec<String>, is_in_folder: bool, source: FigureSource) -> LoadProgram {
    LoadProgram { name: name.to_string(), command, environment: Vec::new(), is_in_folder, source }
}

/// The path of a program that [`catalog::missing`] found.
fn tool(name: &str) -> String {
    find_program(name).map_or_else(|| name.to_string(), |path| path.display().to_string())
}

fn not_available(load: &Load, reason: String, cure: String) -> LoadError {
    LoadError::NotAvailable { load: load.name().to_string(), reason, cure }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EthercatDevice;

    fn place(scratch: &str) -> Placement {
        let cpus = |text: &str| text.parse().unwrap();
        Placement { house_keeping: cpus("0-2"), measured: cpus("3"), scratch: scratch.into(), device: None }
    }

    #[test]
    fn system_is_linuxcncs_one_worker_of_each_for_every_housekeeping_cpu() {
        let mut order = empty(&place("/var/tmp"));
        stress(&mut order, &[("cpu", 3, &[]), ("fork", 3, &[])]);
        assert_eq!(order.parts[0].command[1..5], ["--cpu", "3", "--fork", "3"]);
        assert!(order.saturates);
    }

    #[test]
    fn programs_get_no_path_to_their_folder() {
        let place = place("/var/tmp");
        for load in [Load::System, Load::Storage, Load::Io] {
            let Ok(Some(order)) = order(&load, &place) else { continue };
            for part in &order.parts {
                let paths = part.command.iter().skip(1).filter(|word| word.contains('/')).count();
                assert!(part.is_in_folder && paths == 0, "{load}: {:?}", part.command);
            }
        }
    }

    #[test]
    fn memory_never_asks_for_more_than_its_share_of_what_is_there() {
        let available = room::available_memory();
        for workers in [1, 3, 1000] {
            match memory(&Load::Memory, workers) {
                Ok(MemoryShare([(_, bytes)])) => assert!(bytes * workers as u64 <= available),
                Err(error) => assert!(error.to_string().contains("memory"), "{error}"),
            }
        }
    }

    #[test]
    fn a_folder_without_room_says_how_much_is_missing() {
        let error = room_on_disk(&Load::Io, &place("/proc"), MIB).unwrap_err().to_string();
        assert!(error.contains("/proc has 0 MiB free, 2 MiB are needed; free some space"), "{error}");
    }

    #[test]
    fn no_load_runs_without_a_housekeeping_cpu() {
        let place = Placement { house_keeping: CpuSet::new(), ..place("/var/tmp") };
        let error = order(&Load::Net, &place).unwrap_err().to_string();
        assert!(error.contains("no housekeeping CPU"), "{error}");
    }

    #[test]
    fn an_interface_that_ethercat_must_not_use_is_refused_before_anything_runs() {
        let device = |name: &str| Some(EthercatDevice { name: name.to_string(), is_forced: false });
        let refused = |name| {
            ethercat(&Placement { device: device(name), ..place("/var/tmp") }, &mut empty(&place("/")))
        };
        let said = refused("lo").unwrap_err().to_string();
        assert_eq!(said, "cannot run the load ethercat here: it is a loopback; choose an Ethernet interface");
        assert!(
            refused("nosuch0").unwrap_err().to_string().contains("there is no such interface; choose from")
        );
    }

    #[test]
    fn ipi_aims_at_the_measured_cpus() {
        assert_eq!(targets(&place("/var/tmp")), "3".parse().unwrap());
    }
}
