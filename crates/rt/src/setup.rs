// SPDX-License-Identifier: MIT OR Apache-2.0
//! The set-up of a thread with a deadline, in the order that works: memory locked → stack prefaulted →
//! affinity → policy. Locking first takes its page faults while the thread is still an ordinary one; the
//! policy comes last, so that nothing slow ever runs with it.

use std::sync::{Mutex, PoisonError};

use rustix::mm::{MlockAllFlags, mlockall, munlockall};

use crate::fork::Home;

use crate::policy::Policy;
use crate::thread;
use crate::{Error, Result};

/// Stack that is touched where nothing else is asked; deeper call chains fault once.
pub const STACK_BYTES: usize = 128 * 1024;

/// A thread's request.
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

/// The granted set-up; a step that failed says why.
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

/// Parts of this process that want its memory locked.
struct Locks {
    count: usize,
    /// Whether some of it was locked before the first of them.
    before: bool,
    /// A child of fork() inherits the number, and no lock.
    home: Option<Home>,
}

static LOCKS: Mutex<Locks> = Mutex::new(Locks { count: 0, before: false, home: None });

/// Locks all present and future pages of this process, until [`unlock_memory`] was called as often.
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
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    if !locks.home.is_some_and(Home::is_here) {
        *locks = Locks { count: 0, before: false, home: Some(Home::here()) };
    }
    if locks.count == 0 {
        locks.before = thread::locked_bytes() > 0;
    }
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).map_err(|e| {
        Error::os("lock memory", &e.into(), "run as root, grant CAP_IPC_LOCK, or raise RLIMIT_MEMLOCK (a 'memlock' line in /etc/security/limits.d)")
    })?;
    locks.count += 1;
    Ok(())
}

/// Takes a [`lock_memory`] back. The last one unlocks this process' memory, unless some of it had been locked
/// before the first: what that was, the kernel does not say.
///
/// ```
/// // Also where none is locked.
/// rt::setup::unlock_memory()?;
/// # Ok::<(), rt::Error>(())
/// ```
pub fn unlock_memory() -> Result<()> {
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    locks.count = locks.count.saturating_sub(1);
    if locks.count > 0 || locks.before {
        return Ok(());
    }
    munlockall().map_err(|e| Error::os("unlock memory", &e.into(), "report this as a defect"))
}

/// Stack that is left alone, for what this thread calls while it touches the rest.
const SPARE_BYTES: usize = 16 * 1024;

/// Touches so much of the stack, so that growing into it later faults no more; or what the thread has of it,
/// less some pages. Gives how much that is.
///
/// ```
/// let touched = rt::setup::prefault_stack(rt::setup::STACK_BYTES);
/// assert!(touched <= rt::setup::STACK_BYTES);
/// ```
pub fn prefault_stack(bytes: usize) -> usize {
    let bytes = bytes.min(thread::stack_left().saturating_sub(SPARE_BYTES));
    if bytes > 0 {
        touch_down_to((&raw const bytes).addr().saturating_sub(bytes));
    }
    bytes
}

#[inline(never)]
fn touch_down_to(end: usize) {
    let mut frame = [0u8; 4096];
    frame[0] = 1;
    let at = std::hint::black_box(&mut frame).as_ptr().addr();
    if at > end {
        touch_down_to(end);
    }
    // Still needed after the call above: no tail call, which would take the same frame again.
    std::hint::black_box(&mut frame);
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn memory_stays_locked_until_the_last_undo() {
        if lock_memory().is_err() {
            println!("skipped: memory cannot be locked here");
            return;
        }
        // Other tests of this program may lock it, too: whatever they do, it is locked between these two.
        std::thread::spawn(|| lock_memory().and_then(|()| unlock_memory())).join().unwrap().unwrap();
        assert!(thread::locked_bytes() > 0);
        unlock_memory().unwrap();
    }

    #[test]
    fn a_small_stack_is_touched_as_far_as_it_goes() {
        let touched = |kib: usize, bytes| {
            let thread = std::thread::Builder::new().stack_size(kib << 10);
            thread.spawn(move || prefault_stack(bytes)).unwrap().join().unwrap()
        };
        assert_eq!(touched(1024, STACK_BYTES), STACK_BYTES);
        let part = touched(128, STACK_BYTES);
        assert!((64 << 10..STACK_BYTES).contains(&part), "{part}");
        // It may get a larger stack, which another thread has left.
        assert!(touched(1024, usize::MAX) > 1 << 19);
        assert_eq!(touched(1024, 0), 0);
    }
}
