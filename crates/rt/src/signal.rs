// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals from one thread of this process to another, which waits for them: no handler runs.

use std::io;

/// A signal that no other code uses: the last real-time one but one, since the very last is a habit of
/// debuggers.
fn number() -> libc::c_int {
    libc::SIGRTMAX() - 1
}

/// Has the calling thread wait for the signal instead of being ended by it.
///
/// ```
/// // A signal that comes before `wait` is kept for it.
/// rt::signal::block()?;
/// rt::signal::send(rt::thread::id())?;
/// rt::signal::wait()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn block() -> io::Result<()> {
    let set = set();
    // SAFETY: set is an initialised signal set; the old mask is not asked for.
    let status = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    if status == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(status)) }
}

/// Sends it to a thread of this process, which has called [`block`].
///
/// ```
/// // No thread has this number.
/// assert!(rt::signal::send(i32::MAX as u32).is_err());
/// ```
pub fn send(thread: u32) -> io::Result<()> {
    let (process, thread) = (libc::c_long::from(std::process::id()), libc::c_long::from(thread));
    // SAFETY: tgkill takes three numbers and touches no memory.
    let status = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::c_long::from(number())) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits until the calling thread is sent one.
///
/// ```
/// let (say, hear) = std::sync::mpsc::channel();
/// let waits = std::thread::spawn(move || {
///     rt::signal::block()?;
///     say.send(rt::thread::id()).unwrap();
///     rt::signal::wait()
/// });
/// rt::signal::send(hear.recv().unwrap())?;
/// waits.join().unwrap()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn wait() -> io::Result<()> {
    let set = set();
    loop {
        // SAFETY: set is an initialised signal set; no information is asked for.
        if unsafe { libc::sigwaitinfo(&raw const set, std::ptr::null_mut()) } >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn set() -> libc::sigset_t {
    // SAFETY: an all-zero set is valid memory for sigemptyset, which makes it an empty one, and the number is
    // a signal's.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, number());
        set
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_thread_that_waits_is_sent_signals_one_by_one() {
        let (say, said) = channel();
        let waits = std::thread::spawn(move || {
            block().unwrap();
            say.send(crate::thread::id()).unwrap();
            (0..100).for_each(|_| wait().unwrap());
        });
        let thread = said.recv().unwrap();
        // Real-time signals queue: none is lost while it does not wait yet.
        (0..100).for_each(|_| send(thread).unwrap());
        waits.join().unwrap();
    }

    #[test]
    fn a_thread_that_is_gone_is_an_error() {
        let thread = std::thread::spawn(crate::thread::id).join().unwrap();
        // The kernel wakes the thread that joins it a moment before it forgets the thread.
        let listed = format!("/proc/self/task/{thread}");
        while std::path::Path::new(&listed).exists() {
            std::thread::yield_now();
        }
        assert_eq!(send(thread).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
