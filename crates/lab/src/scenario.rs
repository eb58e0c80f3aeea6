// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios: which storms blow while which probe measures. `scenarios.toml` holds those that there are; a
//! file of the same form can be given instead of a name.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::architecture::Architecture;
use crate::guest::storm;
use crate::job::{StormOrder, once};
use crate::{Error, Result};

/// One experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// Its purpose, in a line.
    pub about: String,
    /// The program on the isolated CPU: `spin` never enters the kernel by itself, `wakeup` sleeps every
    /// period, [`RESPONSE`] answers edges of a housekeeping CPU by polling, [`REGISTERS`] and [`LINES`]
    /// those of [`crate::edges`], [`SIGNAL`] those of [`crate::signal`].
    #[serde(default = "spin")]
    pub probe: String,
    /// The period of what has one, in microseconds; a millisecond where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_us: Option<u64>,
    /// The storms; none leaves the machine idle.
    #[serde(default)]
    pub storms: Vec<String>,
    /// In a file: the scenario of it whose storms these are.
    #[serde(default, skip_serializing)]
    storms_of: Option<String>,
    /// How several storms share the time.
    #[serde(default)]
    pub order: StormOrder,
    /// How many times as many rounds each storm blows as alone: a storm's own take about 3 s.
    #[serde(default = "once")]
    pub times: u64,
}

/// The probe that answers edges, which reach it through a file.
pub const RESPONSE: &str = "response";

/// The probe that answers edges from outside which reach it through memory.
pub const SIGNAL: &str = "response-ivshmem";

/// The probe that answers edges from outside by polling and driving registers.
pub const REGISTERS: &str = "response-registers";

/// The probe that answers edges from outside through the kernel.
pub const LINES: &str = "response-lines";

impl Scenario {
    /// Whether its isolated CPU answers edges of a housekeeping CPU.
    pub fn responds(&self) -> bool {
        self.probe == RESPONSE
    }

    /// Whether its edges come from outside of the guest through memory.
    pub fn has_signal(&self) -> bool {
        self.probe == SIGNAL
    }

    /// Whether its edges come from outside of the guest at lines.
    pub fn has_lines(&self) -> bool {
        [REGISTERS, LINES].contains(&self.probe.as_str())
    }

    /// The same without storms that change what guests of an architecture do not have, and their names.
    pub fn on(&self, architecture: Architecture) -> Result<(Scenario, Vec<String>)> {
        let is_on = |name: &String| storm::kind(name).is_none_or(|kind| kind.is_on(architecture));
        let (storms, left_out): (Vec<_>, Vec<_>) = self.storms.iter().cloned().partition(is_on);
        if storms.is_empty() && !left_out.is_empty() {
            let why =
                format!("machines of {architecture} have nothing that {} could change", left_out.join(", "));
            return Err(Error::on("run the scenario", &self.name, why, "use another --arch"));
        }
        Ok((Scenario { storms, ..self.clone() }, left_out))
    }

    /// From one wakeup or edge to the next.
    pub fn period(&self) -> Duration {
        Duration::from_micros(self.period_us.unwrap_or(1000))
    }
}

fn spin() -> String {
    "spin".to_string()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    scenario: Vec<Scenario>,
}

/// The scenarios that there are: those of the file, and one for each storm alone.
pub fn all() -> Result<Vec<Scenario>> {
    let mut scenarios = parse(include_str!("scenarios.toml"), "scenarios.toml")?;
    scenarios.extend(storm::KINDS.iter().map(|kind| Scenario {
        name: kind.name.to_string(),
        about: kind.about.to_string(),
        probe: spin(),
        period_us: None,
        storms: vec![kind.name.to_string()],
        storms_of: None,
        order: StormOrder::Together,
        times: 1,
    }));
    Ok(scenarios)
}

/// Longest scenario that is read.
const LONGEST: u64 = 1 << 20;

/// The scenarios called `names`; a name that ends in `.toml` is a file with scenarios.
pub fn named(names: &[String]) -> Result<Vec<Scenario>> {
    let known = all()?;
    let mut found = Vec::new();
    for name in names {
        if name.ends_with(".toml") {
            let text = untrusted::read(Path::new(name), LONGEST);
            let text = text.map_err(|e| Error::io("read", Path::new(name), &e))?;
            found.extend(parse(&String::from_utf8_lossy(&text), name)?);
        } else if let Some(scenario) = known.iter().find(|scenario| scenario.name == *name) {
            found.push(scenario.clone());
        } else {
            let cure = "see isolator lab list, or give a .toml file";
            return Err(Error::on(
                "run the scenario",
                format!("'{name}'"),
                "there is none of that name",
                cure,
            ));
        }
    }
    Ok(found)
}

/// The scenarios in a text; `name` is for messages.
pub fn parse(text: &str, name: &str) -> Result<Vec<Scenario>> {
    let wrong = |why: String| {
        Error::on("read the scenarios of", name, why, "compare it with isolator lab show quiet")
    };
    let mut file: ScenarioFile = toml::from_str(text).map_err(|e| wrong(e.message().to_string()))?;
    let listed = file.scenario.clone();
    for scenario in &mut file.scenario {
        if let Some(of) = scenario.storms_of.take() {
            if !scenario.storms.is_empty() {
                return Err(wrong(format!("'{}' has a list of storms and those of '{of}'", scenario.name)));
            }
            let one = listed.iter().find(|one| one.name == of && one.storms_of.is_none());
            scenario.storms = one.map(|one| one.storms.clone()).ok_or_else(|| {
                wrong(format!("'{}' has the storms of '{of}', which lists none here", scenario.name))
            })?;
        }
        if let Some(unknown) = scenario.storms.iter().find(|name| storm::kind(name).is_none()) {
            return Err(wrong(format!("'{}' names a storm '{unknown}', which there is not", scenario.name)));
        }
    }
    Ok(file.scenario)
}

/// A scenario as the file would hold it.
pub fn text(scenario: &Scenario) -> String {
    format!("[[scenario]]\n{}", toml::to_string(scenario).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_has_a_name_of_its_own_and_storms_that_exist() {
        let names = all().unwrap().into_iter().map(|scenario| scenario.name).collect::<Vec<_>>();
        let unique = names.iter().collect::<std::collections::BTreeSet<_>>();
        assert_eq!(unique.len(), names.len(), "{names:?}");
    }

    #[test]
    fn a_scenario_shown_reads_as_itself() {
        for scenario in all().unwrap() {
            assert_eq!(parse(&text(&scenario), "shown").unwrap(), [scenario]);
        }
    }

    #[test]
    fn the_storms_of_another_are_its_own() {
        let [minute, response] =
            ["minute", "response"].map(|name| named(&[name.to_string()]).unwrap().remove(0));
        assert!(!minute.storms.is_empty());
        assert_eq!(response.storms, minute.storms);
    }

    #[test]
    fn an_unknown_name_is_refused_and_so_is_a_file_with_an_unknown_storm() {
        let error = named(&["hurricane".to_string()]).unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot run the scenario 'hurricane': there is none of that name; see isolator lab list, or give a .toml file"
        );
        let error = parse("[[scenario]]\nname='a'\nabout=''\nstorms=['b']", "x").unwrap_err().to_string();
        assert!(error.contains("'a' names a storm 'b', which there is not"), "{error}");
        let error = parse("[[scenario]]\nname='a'\nabout=''\nstorms_of='a'", "x").unwrap_err().to_string();
        assert!(error.contains("'a' has the storms of 'a', which lists none here"), "{error}");
    }
}
