// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control thread's side of a load: start, settle, stop; and what is done when the supervisor itself
//! fails.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::Signal;
use untrusted::Scratch;

use crate::did::{LoadOutcome, SupervisorEvent};
use crate::part::{LoadOrder, SELF};
use crate::{Load, LoadError, Placement, WORKER_VERB, Worked, cgroup, plan, process, why};

/// How long a supervisor may take to start everything; a display server may need 10 s of it.
const START: Duration = Duration::from_secs(20);

/// How long it may take to end everything: its own limits add up to 25 s for two programs.
const STOP: Duration = Duration::from_secs(30);

/// How long it may take to say how the load worked.
const ANSWER: Duration = Duration::from_secs(10);

/// How long orphans of a dead supervisor may take to follow their death signal.
const FOLLOW: Duration = Duration::from_secs(1);

/// How long killed processes may take to go.
const KILL: Duration = Duration::from_secs(5);

/// A load that runs. Dropped, it is stopped.
#[derive(Debug)]
pub struct Running {
    load: Load,
    supervised: Option<Supervised>,
}

impl Load {
    /// Starts the load. It runs on `place.house_keeping` alone, until it is stopped or this process ends.
    pub fn start(&self, place: &Placement) -> Result<Running, LoadError> {
        let order = plan::order(self, place)?;
        let failed = |reason: String| LoadError::Failed {
            load: self.name().to_string(),
            reason,
            cure: "fix the cause, or leave this load out of --loads".to_string(),
        };
        let Some(order) = order else { return Ok(Running { load: self.clone(), supervised: None }) };
        let folder = Scratch::below(&place.scratch, cgroup::NAME).map_err(|e| LoadError::NotAvailable {
            load: self.name().to_string(),
            reason: format!("it has no folder for its files in {}: {}", place.scratch.display(), why(e)),
            cure: "choose a folder of this user with -o, or set TMPDIR".to_string(),
        })?;
        let supervised = Some(Supervised::start(folder, order).map_err(failed)?);
        Ok(Running { load: self.clone(), supervised })
    }
}

impl Running {
    /// Which load it is.
    pub fn load(&self) -> &Load {
        &self.load
    }

    /// Waits until it really loads, at most so long: programs start, files are laid out. Whether it does, or
    /// why it never will. To be called again, or not: what it did counts from then on.
    pub fn settle(&mut self, at_most: Duration) -> Result<bool, String> {
        let Some(supervised) = &mut self.supervised else { return Ok(true) };
        supervised.listen(at_most, |heard| heard.loading || heard.ended.is_some());
        match &supervised.heard.ended {
            Some(why) => Err(why.clone()),
            None => Ok(supervised.heard.loading),
        }
    }

    /// How it worked so far, second by second; `None` where its supervisor does not report it.
    pub fn worked(&mut self) -> Option<Worked> {
        let Some(supervised) = &mut self.supervised else { return None };
        supervised.heard.worked = None;
        supervised.stdin.as_mut()?.write_all(b"?").ok()?;
        supervised.listen(ANSWER, |heard| heard.worked.is_some());
        supervised.heard.worked.take()
    }

    /// Whether it still runs; does not wait.
    pub fn alive(&mut self) -> bool {
        let Some(supervised) = &mut self.supervised else { return true };
        supervised.listen(Duration::ZERO, |_| false);
        supervised.heard.ended.is_none() && !supervised.heard.closed
    }

    /// Ends it and waits until it is gone, with its files. Takes up to some seconds.
    pub fn stop(mut self) -> LoadOutcome {
        self.supervised.as_mut().map_or_else(LoadOutcome::nothing, Supervised::stop)
    }
}

/// The supervisor's reports.
#[derive(Debug, Default)]
struct SupervisorState {
    started: bool,
    failed: Option<String>,
    loading: bool,
    ended: Option<String>,
    worked: Option<Worked>,
    did: Option<LoadOutcome>,
    /// Its end of the pipe is closed: it is no more.
    closed: bool,
}

#[derive(Debug)]
struct Supervised {
    /// Removed when this is dropped, after the load's end, where guard and supervisor could not.
    folder: Scratch,
    order: LoadOrder,
    child: Child,
    /// Held open as long as the load is to run.
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    line: Vec<u8>,
    heard: SupervisorState,
    gone: bool,
}

impl Supervised {
    fn start(folder: Scratch, order: LoadOrder) -> Result<Supervised, String> {
        let failed = |e: std::io::Error| format!("no supervisor: {}", why(e));
        let order = LoadOrder { folder: folder.number(), ..order };
        let mut text = serde_json::to_string(&order).map_err(|e| failed(e.into()))?;
        text.push('\n');
        let mut command = Command::new(SELF);
        command.arg0("isolator").args([WORKER_VERB, "guard", &std::process::id().to_string()]);
        command.arg(order.folder.to_string()).arg(order.cgroup.as_deref().unwrap_or(Path::new("-")));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let lent = folder.lend().map_err(failed)?;
        let mut child = command.spawn().map_err(failed)?;
        drop(lent);
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (mut stdin, stdout) = pipes.ok_or("no supervisor: no pipes")?;
        let prepared = rustix::fs::fcntl_setfl(&stdout, OFlags::NONBLOCK);
        let sent = prepared.map_err(std::io::Error::from).and_then(|()| stdin.write_all(text.as_bytes()));
        let (line, heard) = (Vec::new(), SupervisorState::default());
        let mut supervised =
            Supervised { folder, order, child, stdin: Some(stdin), stdout, line, heard, gone: false };
        sent.map_err(failed)?;
        supervised.listen(START, |heard| heard.started || heard.failed.is_some());
        if supervised.heard.started {
            return Ok(supervised);
        }
        let why = supervised.heard.failed.take();
        Err(why.unwrap_or_else(|| "its supervisor did not start it".to_string()))
    }

    /// Takes in what the supervisor tells, until `enough`, for at most that long.
    fn listen(&mut self, at_most: Duration, enough: impl Fn(&SupervisorState) -> bool) {
        let deadline = Instant::now() + at_most;
        loop {
            self.take();
            let left = deadline.saturating_duration_since(Instant::now());
            if enough(&self.heard) || self.heard.closed || left.is_zero() {
                return;
            }
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            // Interrupted or not: what there is to read decides.
            let _ = poll(&mut [PollFd::new(&self.stdout, PollFlags::IN)], Some(&left));
        }
    }

    fn take(&mut self) {
        let mut bytes = [0; 4096];
        while !self.heard.closed {
            match self.stdout.read(&mut bytes) {
                Ok(0) => self.heard.closed = true,
                Ok(count) => self.line.extend(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            match serde_json::from_slice(&line) {
                Ok(SupervisorEvent::Started) => self.heard.started = true,
                Ok(SupervisorEvent::Failed(why)) => self.heard.failed = Some(why),
                Ok(SupervisorEvent::Loading) => self.heard.loading = true,
                Ok(SupervisorEvent::Ended(how)) => self.heard.ended = Some(how),
                Ok(SupervisorEvent::Worked(worked)) => self.heard.worked = Some(worked),
                Ok(SupervisorEvent::Did(did)) => self.heard.did = Some(did),
                Err(_) => {}
            }
        }
    }

    fn stop(&mut self) -> LoadOutcome {
        self.stdin = None;
        self.listen(STOP, |heard| heard.closed);
        if self.heard.did.is_none() || !self.heard.closed {
            self.sweep();
        }
        // Reaped only after the sweep: until then no other process gets its PID, which names the session.
        let _ = self.child.wait();
        self.gone = true;
        let lost =
            || LoadOutcome::unknown("its supervisor died or hung, what it did is not known".to_string());
        self.heard.did.take().unwrap_or_else(lost)
    }

    /// Removes what a supervisor left that died or hangs: the processes of its session, the files, the
    /// cgroup.
    fn sweep(&mut self) {
        let _ = self.child.kill();
        let session = self.child.id();
        let left = || {
            let all = process::all().into_iter();
            all.filter(|process| process.session == session && process.state != 'Z').collect::<Vec<_>>()
        };
        wait_until(FOLLOW, || left().is_empty());
        wait_until(KILL, || {
            if let Some(group) = &self.order.cgroup {
                cgroup::kill(group);
            }
            let left = left();
            left.iter().for_each(|process| process.signal(Signal::KILL));
            left.is_empty()
        });
        // Either may be gone already.
        let _ = self.folder.remove();
        if let Some(group) = &self.order.cgroup {
            cgroup::remove(group);
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if !self.gone {
            self.stop();
        }
    }
}

fn wait_until(at_most: Duration, done: impl Fn() -> bool) {
    let deadline = Instant::now() + at_most;
    while !done() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}
