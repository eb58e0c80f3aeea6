// SPDX-License-Identifier: MIT OR Apache-2.0
//! The set-up of a thread with a deadline, in the order that works: memory locked → stack prefaulted →
//! affinity → policy. Locking first takes its page faults while the thread is still an ordinary one; the
//! policy comes last, so that nothing slow ever runs with it.

use rustix::mm::{MlockAllFlags, mlockall, munlockall};

use crate::policy::Policy;
use crate::thread;
use crate::{Error, Result};

/// Stack that is touched where nothing else is asked; deeper call chains fault once.
pub const STACK_BYTES: usize = 128 * 1024;

/// What a thread asks for.
///
/// ```
/// use rt::Policy;
/// use rt::setup::Setup;
///
/// let setup = Setup { cpus: vec![], policy: Policy::Fifo(80), lock_memory: true };
/// match setup.apply() {
///     Ok(granted) => println!("{} on cpus {:?}", granted.policy, granted.affinity),
///     Err(error) => println!("{error}"),
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Setup {
    /// CPUs to run on; empty: wherever it may now.
    pub cpus: Vec<u32>,
    /// The policy to run with.
    pub policy: Policy,
    /// Whether to lock the process' memory.
    pub lock_memory: bool,
}

/// What it got; a step that failed says why.
///
/// ```
/// use rt::Policy;
/// use rt::setup::Setup;
///
/// let setup = Setup { cpus: vec![], policy: Policy::Batch, lock_memory: true };
/// let granted = setup.apply()?;
/// if let Err(error) = granted.memory {
///     println!("{error}");
/// }
/// # Ok::<(), rt::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct GrantedSetup {
    /// Whether the process' memory is locked, or why not.
    pub memory: Result<()>,
    /// CPUs that it may run on.
    pub affinity: Vec<u32>,
    /// Its policy as the kernel reports it.
    pub policy: Policy,
}

impl Setup {
    /// Sets up the calling thread. Affinity and policy must be granted; locked memory is reported.
    ///
    /// ```
    /// use rt::Policy;
    /// use rt::setup::Setup;
    ///
    /// let setup = Setup { cpus: vec![], policy: Policy::Batch, lock_memory: true };
    /// let granted = setup.apply()?;
    /// assert_eq!(granted.policy, Policy::Batch);
    /// # Ok::<(), rt::Error>(())
    /// ```
    pub fn apply(&self) -> Result<GrantedSetup> {
        let memory = if self.lock_memory {
            lock_memory()
        } else {
            Err(Error::new("lock memory", "it was not asked", "ask for it"))
        };
        prefault_stack(STACK_BYTES);
        if !self.cpus.is_empty() {
            thread::set_affinity(&self.cpus)?;
        }
        thread::no_timer_slack();
        self.policy.apply(false)?;
        Ok(GrantedSetup { memory, affinity: thread::affinity(), policy: Policy::current()? })
    }
}

/// Locks all present and future pages of this process.
///
/// ```
/// match rt::setup::lock_memory() {
///     Ok(()) => rt::setup::unlock_memory()?,
///     Err(error) => println!("{error}"),
/// }
/// # Ok::<(), rt::Error>(())
/// ```
pub fn lock_memory() -> Result<()> {
    // The vDSO's data is no memory that can be locked: the first reading of the clock faults it in.
    crate::clock::monotonic_ns();
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).map_err(|e| {
        Error::os("lock memory", &e.into(), "run as root, grant CAP_IPC_LOCK, or raise RLIMIT_MEMLOCK (a 'memlock' line in /etc/security/limits.d)")
    })
}

/// Unlocks this process' memory.
///
/// ```
/// // Also where none is locked.
/// rt::setup::unlock_memory()?;
/// # Ok::<(), rt::Error>(())
/// ```
pub fn unlock_memory() -> Result<()> {
    munlockall().map_err(|e| Error::os("unlock memory", &e.into(), "report this as a defect"))
}

/// Touches so much of the stack, so that growing into it later faults no more.
///
/// ```
/// rt::setup::prefault_stack(rt::setup::STACK_BYTES);
/// ```
#[inline(never)]
pub fn prefault_stack(bytes: usize) {
    let mut frame = [0u8; 16 * 1024];
    for page in frame.chunks_mut(4096) {
        page[0] = 1;
    }
    std::hint::black_box(&mut frame);
    if bytes > frame.len() {
        prefault_stack(bytes - frame.len());
    }
    // Still needed after the call above: no tail call, which would take the same frame again.
    std::hint::black_box(&mut frame);
}
