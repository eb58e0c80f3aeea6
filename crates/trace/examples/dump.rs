// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints what the kernel says of a process' threads: `dump PID SECONDS`.

use std::path::Path;
use std::time::{Duration, Instant};

use cause::names::Names;
use trace::bpf::ThreadWatch;

fn main() -> trace::Result<()> {
    let args: Vec<u32> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let names = Names::read(Path::new("/"));
    let mut bpf = ThreadWatch::load(&names)?;
    println!("{:?}", bpf.could_not_see());
    bpf.watch_new_threads_of(args[0])?;
    for entry in std::fs::read_dir(format!("/proc/{}/task", args[0])).unwrap().flatten() {
        bpf.watch(args[0], entry.file_name().to_string_lossy().parse().unwrap())?;
    }
    let end = Instant::now() + Duration::from_secs(args[1].into());
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(100));
        for record in bpf.take() {
            println!("{record:?}");
        }
    }
    println!("lost {}", bpf.lost());
    Ok(())
}
