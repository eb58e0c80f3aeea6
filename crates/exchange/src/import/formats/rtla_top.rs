// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of `rtla timerlat top`, `rtla osnoise top` and `rtla hwnoise`.
//!
//! They are drawn anew each second with figures since the start: the last screen counts, and the worst
//! maximum of all. Figures are cut to whole units. timerlat counts interrupts alone; threads are taken to be
//! as many. osnoise counts interruptions by their origin, and states the longest single one and the most
//! noise of one period. Since 6.11 a line ALL has the extremes of all CPUs.

use std::collections::BTreeMap;

use super::rtla;
use crate::import::figures::ToolScreen;
use crate::import::scan::prelude::*;

use machine::units::whole_us;

pub(in crate::import) const TIMERLAT: Description = Description {
    name: "rtla timerlat top",
    told: Told::Lines(|line| Mark::first([heads_timerlat(line), line.contains("IRQ Timer Latency (")])),
    lacks: &[Lack::Distribution, Lack::MissedPeriods, Lack::End],
    read: read_timerlat,
    ..rtla::TIMERLAT
};

pub(in crate::import) const OSNOISE: Description = Description {
    name: "rtla osnoise top",
    told: Told::Lines(|line| {
        let is_unit = line.starts_with("duration:") && line.contains("time is in us");
        Mark::first([heads_osnoise(line), is_unit])
    }),
    lacks: &[Lack::Distribution, Lack::End],
    read: read_osnoise,
    ..rtla::OSNOISE
};

/// Columns of timerlat, in the order of the table.
const KINDS: [RowKind; 3] = [RowKind::TimerlatIrq, RowKind::TimerlatThread, RowKind::TimerlatUser];

fn is_head(line: &str, second: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("CPU") && words.next() == Some(second)
}

fn heads_timerlat(line: &str) -> bool {
    is_head(line, "COUNT") && line.contains('|')
}

fn heads_osnoise(line: &str) -> bool {
    line.contains("Max Single") && is_head(line, "Period")
}

/// Rows of all screens, by CPU and column.
#[derive(Debug, Default)]
struct Rows {
    screens: BTreeMap<(u32, usize), ToolScreen>,
    /// How many screens were drawn.
    heads: u64,
    /// Whether other text followed, so that the next screen is another run's.
    ended: bool,
    /// Statements before the first screen.
    statements: usize,
}

impl Rows {
    /// Begins a screen.
    fn head(&mut self, statements: usize) -> Result<(), String> {
        if self.heads == 0 {
            self.statements = statements;
        }
        self.heads += 1;
        second_run_if(self.ended || statements > self.statements)
    }

    fn draw(&mut self, cpu: u32, column: usize, screen: ToolScreen) -> Result<(), String> {
        match self.screens.get_mut(&(cpu, column)) {
            Some(_) if self.heads < 2 => return second_run(),
            Some(known) => known.redraw(screen)?,
            None => drop(self.screens.insert((cpu, column), screen)),
        }
        Ok(())
    }

    /// Takes a line that is no row.
    fn other(&mut self, line: &str) {
        let is_rule = line.bytes().all(|byte| b"-| ".contains(&byte));
        let is_title = ["Timer Latency", "Operating System Noise", "Hardware-related Noise"].contains(&line);
        let is_frame = is_rule || is_title || line.starts_with("ALL ") || line.starts_with("duration:");
        self.ended |= !is_frame && self.heads > 0;
    }

    fn note(&self, found: &mut ImportedFile) {
        if self.heads > 1 {
            found.note(format!("the last of {} screens counts, and the worst maximum of all", self.heads));
        }
    }
}

fn read_timerlat(scan: &mut Scan, found: &mut ImportedFile) -> Result<(), String> {
    let (mut rows, mut unit_ns, mut worst) = (Rows::default(), None, [None; KINDS.len()]);
    while let Some(line) = scan.next()? {
        let groups = || line.split('|').skip(1).map(|group| figures(&line, group));
        if heads_timerlat(&line) {
            rows.head(scan.statements)?;
        } else if line.contains("IRQ Timer Latency (") {
            unit_ns = unit_of(&line);
        } else if line.starts_with("ALL ") {
            for (worst, screen) in worst.iter_mut().zip(groups()) {
                *worst = (*worst).max(screen?.max);
            }
        } else if let Some((cpu, count)) = cpu_and_count(&line)? {
            let groups = groups().collect::<Result<Vec<_>, _>>()?;
            if !(2..=KINDS.len()).contains(&groups.len()) {
                return Err(line.at(format_args!("cpu {cpu} has {} groups of figures", groups.len())));
            }
            let identity = (groups.len() as u64, 0);
            for (place, screen) in groups.into_iter().enumerate() {
                let cycles = if screen.max.is_some() { count.max(1) } else { 0 };
                rows.draw(cpu, place, ToolScreen { identity, cycles, ..screen })?;
            }
        } else {
            rows.other(&line);
        }
    }
    let unit_ns = unit_ns.ok_or("it does not say its time unit")?;
    rows.note(found);
    found.note("rtla timerlat top counts interrupts alone: its threads are taken to have as many samples");
    for ((cpu, place), screen) in &rows.screens {
        found.columns.push(ImportedSeries::new(KINDS[*place], *cpu, unit_ns).screen(screen));
    }
    for (kind, max) in KINDS.into_iter().zip(worst).filter_map(|(kind, max)| Some((kind, max?))) {
        found.state_max_of_all(kind, max);
    }
    Ok(())
}

fn read_osnoise(scan: &mut Scan, found: &mut ImportedFile) -> Result<(), String> {
    let (mut rows, mut is_us) = (Rows::default(), false);
    let mut worst_periods: BTreeMap<u32, u64> = BTreeMap::new();
    while let Some(line) = scan.next()? {
        if heads_osnoise(&line) {
            rows.head(scan.statements)?;
        } else if line.ends_with("time is in us") {
            is_us = true;
        } else if let Some((cpu, _)) = cpu_and_count(&line)? {
            let (screen, worst_period_us) = osnoise_row(&line, cpu)?;
            rows.draw(cpu, 0, screen)?;
            let known = worst_periods.entry(cpu).or_default();
            *known = worst_period_us.max(*known);
        } else {
            rows.other(&line);
        }
    }
    if !is_us {
        return Err("it does not say its time unit".into());
    }
    rows.note(found);
    for ((cpu, _), screen) in &rows.screens {
        let us = whole_us(worst_periods[cpu]);
        found.note(format!("noise on cpu {cpu}: up to {us} in one period of rtla"));
        found.columns.push(ImportedSeries::new(RowKind::Noise, *cpu, 1_000).screen(screen));
    }
    Ok(())
}

fn unit_of(line: &str) -> Option<u64> {
    match line.split_once("Latency (")?.1.get(..3)? {
        "us)" => Some(1_000),
        "ns)" => Some(1),
        _ => None,
    }
}

/// `0 #3222` at a row's begin: CPU and count. Long counts are `#120200 e1`.
fn cpu_and_count(line: &Line) -> Result<Option<(u32, u64)>, String> {
    let Some((cpu, rest)) = line.text.split_once('#') else { return Ok(None) };
    let Ok(cpu) = cpu.trim().parse() else { return Ok(None) };
    let mut words = rest.split('|').next().unwrap_or_default().split_whitespace();
    let count = line.number(words.next().unwrap_or_default())?;
    let tens = words.next().and_then(|word| word.strip_prefix('e')?.parse::<u32>().ok()).unwrap_or(0);
    Ok(Some((cpu, count.saturating_mul(10u64.saturating_pow(tens)))))
}

/// `cur min avg max` of one probe, or a dash for each. The line ALL has no `cur`.
fn figures(line: &Line, group: &str) -> Result<ToolScreen, String> {
    let words = group.split_whitespace().collect::<Vec<_>>();
    let is_all = line.starts_with("ALL ");
    if words.len() != if is_all { 3 } else { 4 } {
        return Err(line.at(format_args!("'{}' are not the figures min, avg and max", group.trim())));
    }
    if words.iter().all(|word| *word == "-") {
        return Ok(ToolScreen::default());
    }
    let numbers = words.iter().map(|word| line.number(word)).collect::<Result<Vec<_>, _>>()?;
    let [.., min, avg, max] = numbers[..] else { return Err(line.unreadable()) };
    let max = if is_all { max } else { max.max(numbers[0]) };
    Ok(ToolScreen { min: Some(min), avg: Some(avg as f64), max: Some(max), ..ToolScreen::default() })
}

/// `0 #4           4015681      3133376    21.97149      787570        50300         154 …`, and the most
/// noise of one period.
fn osnoise_row(line: &Line, cpu: u32) -> Result<(ToolScreen, u64), String> {
    let rest = line.split_once('#').map_or("", |(_, rest)| rest);
    let words = rest.split_whitespace().skip(1).collect::<Vec<_>>();
    // rtla hwnoise has no columns of IRQ, softirq and thread.
    if words.len() != 10 && words.len() != 7 {
        return Err(line.at(format_args!("cpu {cpu} has {} figures", words.len())));
    }
    let number = |at: usize| line.number(words[at]);
    let (noise_us, worst_period_us, single_us) = (number(1)?, number(3)?, number(4)?);
    let counts = (5..words.len()).map(number).collect::<Result<Vec<_>, _>>()?;
    let count = counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
    let cycles = if single_us > 0 { count.max(1) } else { count };
    if cycles == 0 {
        return Ok((ToolScreen::default(), worst_period_us));
    }
    let avg = Some((noise_us as f64 / cycles as f64).min(single_us as f64));
    Ok((ToolScreen { cycles, avg, max: Some(single_us), ..ToolScreen::default() }, worst_period_us))
}
