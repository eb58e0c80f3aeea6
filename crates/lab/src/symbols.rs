// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel's functions by address, asked of the kernel itself: Debian ships no System.map. A guest is booted
//! for it once and the answer kept, by the image's content; `nokaslr` keeps it true.

use std::path::PathBuf;
use std::time::Duration;

use evidence::lab::Mode;

use crate::initramfs::Parts;
use crate::job::{GuestJob, GuestTask, PORT_MODULES};
use crate::kernel::GuestKernel;
use crate::patience::Patience;
use crate::qemu::{self, Guest};
use crate::{Error, Result, boot, initramfs, store};

/// Seconds on a quiet host.
const BUSY_HOST: Duration = Duration::from_mins(10);

/// The file with the kernel's symbols.
pub fn of(kernel: &GuestKernel, patience: &Patience, say: &dyn Fn(&str)) -> Result<PathBuf> {
    let file = store::folder("symbols")?.join(&kernel.digest);
    if file.is_file() {
        return Ok(file);
    }
    say(&format!("asks {} for its symbols, once", kernel.release));
    let text = ask(kernel, Mode::Count, patience.or(BUSY_HOST))?;
    evidence::writer::replace(&file, &text)?;
    Ok(file)
}

/// Boots a guest that sends its symbols; as short as a guest can be.
pub fn ask(kernel: &GuestKernel, mode: Mode, patience: Patience) -> Result<Vec<u8>> {
    let job = GuestJob { modules: Vec::new(), disk: false, task: GuestTask::Symbols };
    let program = initramfs::guest_program(kernel.architecture)?;
    let modules = initramfs::modules(kernel.modules.as_deref(), PORT_MODULES);
    let parts = Parts {
        program: &program,
        modules,
        carried: Vec::new(),
        programs: Vec::new(),
        run: None,
        laid: None,
    };
    let guest = Guest {
        kernel,
        initramfs: &initramfs::build(&parts, &job)?,
        boot_line: boot::whole(kernel.architecture, ""),
        mode,
        cpus: 1,
        scope: None,
        disk: false,
        how: qemu::How::default(),
        patience,
    };
    let left = qemu::run(&guest)?;
    let symbols = left.frames.into_iter().find(|(name, _)| name == "symbols").map(|(_, text)| text);
    let cure = "see its console with isolator lab shell";
    symbols.ok_or_else(|| Error::on("learn the symbols of", &kernel.release, "the guest sent none", cure))
}
