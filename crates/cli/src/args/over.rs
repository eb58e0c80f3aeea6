// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options laid over what a plan, or a verb by itself, asks.

use std::time::Duration;

use evidence::claim::ClaimPer;
use evidence::manifest::{Asked, EthercatSetup, ResponseSetup};
use machine::Use;

use super::{EthercatOptions, ResponseOptions, RunOptions};

impl RunOptions {
    /// `asked` with these options over it.
    pub fn over(&self, mut asked: Asked) -> Asked {
        if let Some(purpose) = &self.purpose {
            asked.purpose = Some(purpose.asked.clone());
            // The periods of a program's loops are its own.
            if !asked.is_of_program() {
                asked.periods_ns = purpose.periods_ns();
            }
        }
        if self.purpose.is_some() || !self.period.is_empty() {
            // A limit that a plan took from a use was for the periods of that use.
            asked.limit = asked.limit.filter(|_| asked.purpose.is_none());
        }
        if !self.period.is_empty() {
            asked.periods_ns = self.period.iter().copied().map(ns).collect();
        }
        if !self.verdict.accept.is_empty() {
            asked.accept.clone_from(&self.verdict.accept);
        }
        if let Some(cpus) = &self.cpus {
            asked.cpus = cpus.clone();
        }
        if let Some(cpus) = &self.house_keeping {
            asked.house_keeping = cpus.clone();
        }
        asked.response = wired(asked.response, &self.response);
        asked.ethercat = driven(asked.ethercat, &self.ethercat);
        over(&mut asked.limit, &self.verdict.limit);
        if let (None, Some(Ok(purpose))) = (&asked.limit, asked.purpose.as_deref().map(str::parse::<Use>)) {
            asked.limit = Some(purpose.limits(&asked.periods_ns));
        }
        over(&mut asked.policy, &self.policy);
        over(&mut asked.timer, &self.timer);
        over(&mut asked.priority, &self.priority);
        over(&mut asked.duration_ns, &self.duration.map(ns));
        over(&mut asked.loops, &self.loops);
        over(&mut asked.warm_up_ns, &self.warm_up.map(ns));
        over(&mut asked.threshold_ns, &self.verdict.threshold.map(ns));
        over(&mut asked.claim, &self.verdict.claim);
        let named =
            |name: &str| ClaimPer::NAMES.iter().find(|(known, _)| *known == name).map(|(_, per)| *per);
        over(&mut asked.claim_per, &self.verdict.claim_per.as_deref().and_then(named));
        if !self.verdict.until.is_empty() {
            asked.until.clone_from(&self.verdict.until);
        }
        over(&mut asked.allow, &self.verdict.allow.map(|allowed| allowed.to_string()));
        over(&mut asked.dma_latency_us, &self.dma_latency);
        over(&mut asked.isolate, &self.isolate);
        over(&mut asked.causes, &self.causes);
        asked
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The wiring of the response probe; none where neither plan nor options say anything.
fn wired(plan: Option<ResponseSetup>, options: &ResponseOptions) -> Option<ResponseSetup> {
    let mut wired = plan.unwrap_or_default();
    over(&mut wired.role, &options.role);
    over(&mut wired.signal, &options.signal);
    over(&mut wired.board, &options.board);
    over(&mut wired.chip, &options.chip);
    over(&mut wired.input, &options.line_in);
    over(&mut wired.output, &options.line_out);
    Some(wired).filter(|wired| *wired != ResponseSetup::default())
}

/// The interface of EtherCAT, likewise.
fn driven(plan: Option<EthercatSetup>, options: &EthercatOptions) -> Option<EthercatSetup> {
    let mut driven = plan.unwrap_or_default();
    over(&mut driven.device, &options.device);
    driven.forced |= options.force;
    Some(driven).filter(|driven| *driven != EthercatSetup::default())
}

fn over<T: Clone>(asked: &mut Option<T>, option: &Option<T>) {
    if option.is_some() {
        asked.clone_from(option);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_lie_over_the_plan() {
        let plan = Asked { periods_ns: vec![500_000], priority: Some(70), ..Asked::default() };
        let options = RunOptions { priority: Some(60), ..RunOptions::default() };
        let asked = options.over(plan);
        assert_eq!((asked.periods_ns, asked.priority, asked.limit), (vec![500_000], Some(60), None));
    }
}
