// SPDX-License-Identifier: MIT OR Apache-2.0
//! A request to leave idle states quickly: `/dev/cpu_dma_latency` (Documentation/power/pm_qos_interface.rst).
//!
//! The kernel honours the request as long as the file is open, so it is undone by any exit whatever.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;

use rustix::io::{FdFlags, fcntl_setfd};

use crate::{Error, Result};

const DEVICE: &str = "/dev/cpu_dma_latency";

/// A request that holds while it lives.
///
/// ```
/// use rt::power::DmaLatency;
///
/// match DmaLatency::request(10) {
///     // Until the value is dropped.
///     Ok(_held) => println!("each idle state is left within 10 us"),
///     Err(error) => println!("{error}"),
/// }
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug)]
pub struct DmaLatency(File);

impl DmaLatency {
    /// Asks that no CPU enter an idle state which takes longer than `latency_us` to leave.
    ///
    /// ```
    /// use rt::power::DmaLatency;
    ///
    /// match DmaLatency::request(10) {
    ///     Ok(held) => drop(held),
    ///     Err(error) => println!("{error}"),
    /// }
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn request(latency_us: u32) -> Result<DmaLatency> {
        let failed = |error: std::io::Error| {
            Error::os(
                format!("request {latency_us} us in {DEVICE}"),
                &error,
                "run as root, or do without --dma-latency",
            )
        };
        let mut file = OpenOptions::new().write(true).open(DEVICE).map_err(failed)?;
        let value = i32::try_from(latency_us).unwrap_or(i32::MAX);
        file.write_all(&value.to_ne_bytes()).map_err(failed)?;
        Ok(DmaLatency(file))
    }

    /// Hands the request to the program that this process is about to become; it ends with that program.
    ///
    /// ```
    /// use rt::power::DmaLatency;
    ///
    /// match DmaLatency::request(10) {
    ///     // The program that replaces this one has it.
    ///     Ok(held) => held.keep_across_exec()?,
    ///     Err(error) => println!("{error}"),
    /// }
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn keep_across_exec(self) -> Result<()> {
        fcntl_setfd(self.0.as_fd(), FdFlags::empty())
            .map_err(|e| Error::os(format!("keep {DEVICE} open"), &e.into(), "report this as a defect"))?;
        std::mem::forget(self.0);
        Ok(())
    }
}
