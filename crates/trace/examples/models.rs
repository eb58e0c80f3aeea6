// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints the loops of a process: `models PID SECONDS`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use cause::names::Names;
use trace::bpf::ThreadWatch;
use trace::cycle::CycleCutter;
use trace::model::infer;
use trace::record::{Stay, ThreadEvent};

fn main() -> trace::Result<()> {
    let args: Vec<u32> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let mut bpf = ThreadWatch::load(&Names::read(Path::new("/")))?;
    bpf.watch_new_threads_of(args[0])?;
    for entry in std::fs::read_dir(format!("/proc/{}/task", args[0])).unwrap().flatten() {
        bpf.watch(args[0], entry.file_name().to_string_lossy().parse().unwrap())?;
    }
    let mut stays: BTreeMap<u32, Vec<(u32, Stay)>> = BTreeMap::new();
    for _ in 0..args[1] * 10 {
        std::thread::sleep(Duration::from_millis(100));
        for record in bpf.take() {
            if let ThreadEvent::Stay(stay) = record.kind {
                stays.entry(record.thread).or_default().push((record.cpu, *stay));
            }
        }
    }
    for (thread, stays) in stays {
        let only: Vec<Stay> = stays.iter().map(|(_, stay)| stay.clone()).collect();
        let Some(model) = infer(&only) else {
            println!("{thread}: {} stays, no loop", stays.len());
            continue;
        };
        println!("{thread}: {} {model:?}", model.wait);
        let mut cycles = CycleCutter::new(model);
        let made: Vec<_> = stays.into_iter().filter_map(|(cpu, stay)| cycles.add(cpu, stay)).collect();
        let mut sorted: Vec<u64> = made.iter().map(|cycle| cycle.wakeup_ns()).collect();
        sorted.sort_unstable();
        let remainder: u64 = made.iter().map(|cycle| cycle.remainder_ns()).sum();
        println!(
            "   {} cycles, wakeup median {:?} max {:?}, remainder {remainder}, preempted {}, blocked {}",
            made.len(),
            sorted.get(sorted.len() / 2),
            sorted.last(),
            made.iter().filter(|cycle| !cycle.preempted.is_empty()).count(),
            made.iter().filter(|cycle| !cycle.blocked.is_empty()).count(),
        );
    }
    println!("lost {}", bpf.lost());
    Ok(())
}
