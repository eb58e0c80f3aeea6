// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ethercrab-loop INTERFACE PERIOD_US FILE`: exchanges process data at each tick of a timer, as ethercrab's
//! examples do: one thread that runs the loop, and one that moves frames; either may wait for all timers.
//! FILE holds how many cycles there were, and when the last one began, in ns, as two u64.

use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use ethercrab::std::{ethercat_now, tx_rx_task};
use ethercrab::{MainDevice, MainDeviceConfig, PduStorage, Timeouts};

static FRAMES: PduStorage<16, { PduStorage::element_size(1100) }> = PduStorage::new();

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [interface, period_us, file] = &args[..] else { return Err("INTERFACE PERIOD_US FILE".into()) };
    let (period, file) = (Duration::from_micros(period_us.parse()?), File::create(file)?);
    let (tx, rx, pdus) = FRAMES.try_split().map_err(|()| "frames can be split once")?;
    let frames = tx_rx_task(interface, tx, rx)?;
    std::thread::Builder::new().name("frames".into()).spawn(move || async_io::block_on(frames))?;
    // The segment is a thread of this machine, which may be busy.
    let timeouts = Timeouts { pdu: Duration::from_secs(1), ..Timeouts::default() };
    let main_device = MainDevice::new(pdus, timeouts, MainDeviceConfig::default());
    async_io::block_on(exchange(&main_device, period, &file))
}

async fn exchange(main_device: &MainDevice<'_>, period: Duration, file: &File) -> Result<(), Box<dyn Error>> {
    let failed = |error| format!("{error:?}");
    let group = main_device.init_single_group::<16, 64>(ethercat_now).await.map_err(failed)?;
    let group = group.into_op(main_device).await.map_err(failed)?;
    let mut ticks = async_io::Timer::interval(period);
    let started = Instant::now();
    for cycle in 1u64.. {
        (&mut ticks).await;
        let began_ns = started.elapsed().as_nanos() as u64;
        group.tx_rx(main_device).await.map_err(failed)?;
        for device in group.iter(main_device) {
            device.outputs_raw_mut().iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        }
        let line = [cycle.to_ne_bytes(), began_ns.to_ne_bytes()].concat();
        file.write_all_at(&line, 0)?;
    }
    Ok(())
}
