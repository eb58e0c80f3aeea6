// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blows storms at their pace. Each has a thread of its own, so that a round which the kernel holds back
//! (per-CPU work waits for the isolated CPU's busy thread) holds back nothing else. A round that never comes
//! back, or rounds for which no time is left, are reported: no storm can keep a guest from its end.

use std::io::Read;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::guest::storm::{Context, KINDS, StormJob, StormKind, StormOutcome, kind};

/// How long a round is waited for before other storms go on.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long a round is put off for the one before it.
const POSTPONED: Duration = Duration::from_millis(5);

/// Rounds that were not begun this long after the first are left out.
pub fn length(times: u64) -> Duration {
    Duration::from_secs(95 + 5 * times)
}

/// A storm of which a round is not back by then is given up.
const LOST: Duration = Duration::from_secs(20);

/// How long is waited for what is still under way then; it may well wait for the end of the measurement.
const ENDING: Duration = Duration::from_secs(6);

/// The main function of a storm process: it readies its storms and says so with a line, blows them when it is
/// given one, says what they did, and ends when its standard input is closed.
pub fn main(mut args: impl Iterator<Item = String>) -> ExitCode {
    let order: StormJob = match args.next().map(|text| serde_json::from_str(&text)) {
        Some(Ok(order)) => order,
        _ => return ExitCode::FAILURE,
    };
    let mut storms = Storms::ready(&order);
    println!("{READY}");
    if !matches!(std::io::stdin().read_line(&mut String::new()), Ok(1..)) {
        return ExitCode::FAILURE;
    }
    storms.blow();
    for did in storms.end() {
        println!("{}", serde_json::to_string(&did).unwrap_or_default());
    }
    // The reader must find the process there until it asks for its end.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
}

/// A storm process prints this when its storms are ready.
pub const READY: &str = "ready";

/// Storms that are ready, then those whose rounds are over.
pub struct Storms {
    times: u64,
    blowing: Vec<Blowing>,
    unknown: Vec<StormOutcome>,
    random: Xoshiro256PlusPlus,
}

impl Storms {
    /// Readies the storms in `order`.
    pub fn ready(order: &StormJob) -> Storms {
        let (mut blowing, mut unknown) = (Vec::new(), Vec::new());
        for name in &order.storms {
            match kind(name) {
                Some(kind) => blowing.push(Blowing::ready(kind, order)),
                None => unknown.push(StormOutcome::nothing(name, "there is no such storm".into())),
            }
        }
        Storms { times: order.times, blowing, unknown, random: Xoshiro256PlusPlus::seed_from_u64(order.seed) }
    }

    /// Blows all their rounds.
    pub fn blow(&mut self) {
        turns(&mut self.blowing, &mut self.random, length(self.times));
    }

    /// Has each put back what it changed, and say what it did.
    pub fn end(&mut self) -> Vec<StormOutcome> {
        let until = Instant::now() + ENDING;
        let did = self.blowing.iter_mut().map(|one| one.end(until));
        did.chain(self.unknown.iter().cloned()).collect()
    }
}

/// Lets storms that are due blow a round, in an order drawn from the seed, until all had their rounds or time
/// is over.
fn turns(blowing: &mut [Blowing], random: &mut Xoshiro256PlusPlus, length: Duration) {
    let (began, over) = (Instant::now(), Instant::now() + length);
    blowing.iter_mut().for_each(|one| (one.began, one.next) = (began, began));
    loop {
        let open = blowing.iter().filter(|one| one.open()).map(|one| one.next).min();
        let Some(next) = open.filter(|_| Instant::now() < over) else { return };
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let mut due = blowing.iter_mut().filter(|one| one.open() && one.next <= next).collect::<Vec<_>>();
        let drawn = random.random_range(0..due.len());
        due[drawn].round();
    }
}

/// A request to a storm's thread.
enum Ask {
    Round,
    End(u64),
}

/// Its answer: words, or a reason.
type RoundAnswer = Result<String, String>;

/// A storm under way.
struct Blowing {
    kind: &'static StormKind,
    ask: Sender<Ask>,
    answers: Receiver<RoundAnswer>,
    /// Whether an answer is to come.
    busy: bool,
    failed: Option<String>,
    /// Rounds that there shall be, those that were begun, and those that are over.
    of: u64,
    begun: u64,
    rounds: u64,
    began: Instant,
    asked: Instant,
    next: Instant,
}

impl Blowing {
    fn ready(kind: &'static StormKind, order: &StormJob) -> Blowing {
        let (ask, asked) = channel();
        let (answer, answers) = channel();
        // By its place among all storms: who else blows does not change what is drawn.
        let number = KINDS.iter().position(|one| one.name == kind.name).unwrap_or_default() as u64;
        let context = Context {
            target: order.measured.iter().next().unwrap_or(1),
            measured: order.measured.clone(),
            rounds: kind.rounds * order.times,
            random: Xoshiro256PlusPlus::seed_from_u64(order.seed.wrapping_add(number << 32)),
        };
        std::thread::spawn(move || serve(kind, context, &asked, &answer));
        let mut one = Blowing {
            kind,
            ask,
            answers,
            busy: true,
            failed: None,
            of: kind.rounds * order.times,
            begun: 0,
            rounds: 0,
            began: Instant::now(),
            asked: Instant::now(),
            next: Instant::now(),
        };
        if one.hear(ENDING).is_none() && one.busy {
            one.failed = Some("the kernel did not let it begin".into());
        }
        one
    }

    fn open(&self) -> bool {
        self.failed.is_none() && self.begun < self.of
    }

    /// Begins a round, where the one before is over; else a little later.
    fn round(&mut self) {
        if self.busy && !self.heard_round(Duration::ZERO) {
            self.next += POSTPONED;
            if self.asked.elapsed() > LOST {
                let (round, of) = (self.begun, self.of);
                self.failed = Some(format!(
                    "given up in its round {round} of {of}, which this kernel had held for {LOST:?}: it may wait for \
                     the isolated CPU's thread, which never sleeps"
                ));
            }
        } else if self.failed.is_none() && self.ask.send(Ask::Round).is_ok() {
            (self.begun, self.asked) = (self.begun + 1, Instant::now());
            self.next = self.began + self.kind.pace * self.begun as u32;
            self.busy = true;
            self.heard_round(PATIENCE);
        }
    }

    /// Waits for the end of a round; whether there is none under way any more.
    fn heard_round(&mut self, limit: Duration) -> bool {
        if self.hear(limit).is_some() {
            self.rounds += 1;
        }
        !self.busy
    }

    /// An answer, if it comes in time and is no failure.
    fn hear(&mut self, limit: Duration) -> Option<String> {
        let answer = self.answers.recv_timeout(limit).ok()?;
        self.busy = false;
        answer.map_err(|why| self.failed = Some(why)).ok()
    }

    fn end(&mut self, until: Instant) -> StormOutcome {
        let left = || until.saturating_duration_since(Instant::now());
        if self.busy && self.failed.is_none() {
            self.heard_round(left());
        }
        let mut said = None;
        if !self.busy && self.failed.is_none() && self.ask.send(Ask::End(self.rounds)).is_ok() {
            self.busy = true;
            said = self.hear(left());
        }
        let (name, over, of) = (self.kind.name, self.rounds, self.of);
        match (said, &self.failed) {
            (Some(did), _) if over == of => StormOutcome { name: name.into(), took_effect: true, did },
            (Some(did), _) => StormOutcome::nothing(
                name,
                format!("{did}; no time was left for more than {over} of {of} rounds"),
            ),
            (None, Some(why)) => StormOutcome::nothing(name, why.clone()),
            (None, None) => StormOutcome::nothing(
                name,
                format!("after {over} of {of} rounds the kernel did not let it go on"),
            ),
        }
    }
}

/// A storm's thread.
fn serve(
    kind: &'static StormKind,
    mut context: Context,
    asked: &Receiver<Ask>,
    answers: &Sender<RoundAnswer>,
) {
    let answer = |what: crate::guest::Result<String>| {
        let _ = answers.send(what.map_err(|why| why.to_string()));
    };
    let mut storm = match (kind.ready)(&mut context) {
        Ok(storm) => storm,
        Err(why) => return answer(Err(why)),
    };
    answer(Ok(String::new()));
    let mut number = 0;
    while let Ok(ask) = asked.recv() {
        match ask {
            Ask::Round => {
                number += 1;
                match storm.round(&mut context) {
                    Ok(()) => answer(Ok(String::new())),
                    Err(why) => {
                        let _ = storm.end(number);
                        return answer(Err(format!("round {number}: {why}").into()));
                    }
                }
            }
            Ask::End(rounds) => answer(storm.end(rounds)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn did(storms: &[&str]) -> Vec<StormOutcome> {
        let storms = storms.iter().map(ToString::to_string).collect();
        let mut storms =
            Storms::ready(&StormJob { storms, measured: [0].into_iter().collect(), seed: 1, times: 1 });
        storms.blow();
        storms.end()
    }

    #[test]
    fn storms_blow_all_their_rounds_and_unknown_ones_say_so() {
        let did = did(&["mprotect-other", "munmap-other", "hurricane"]);
        let said = did.iter().map(|one| (one.name.as_str(), one.took_effect, one.did.as_str()));
        assert_eq!(
            said.collect::<Vec<_>>(),
            [
                ("mprotect-other", true, "16 pages made read-only and writable again 50 times"),
                ("munmap-other", true, "16 pages mapped, written, unmapped and seen gone 50 times"),
                ("hurricane", false, "there is no such storm"),
            ]
        );
    }

    #[test]
    fn a_storm_that_cannot_begin_says_why() {
        // Guests have a folder /modules; machines that run tests have none.
        let did = did(&["module-load"]);
        assert!(!did[0].took_effect && !did[0].did.is_empty(), "{did:?}");
    }
}
