// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of one series, as text that a person, gnuplot and a spreadsheet can read.
//!
//! | file | holds |
//! |---|---|
//! | `STEM.histograms.csv` | three blocks (gnuplot `index 0..2`): latency, jitter, persistence |
//! | `STEM.seconds.csv` | a row a second |
//! | `STEM.journal` | while it runs: what came since the two above were written, a line a second |
//!
//! Once finished, a file that is long is compressed (`.zst`).
//!
//! Every line of the journal carries its second and every file says through which second it speaks, so that
//! reading is right after a kill at any moment: of a line, what a file already holds is passed over (its
//! counts, its row, or both), and a line cut short is dropped.

use std::fmt::Write;
use std::io::Read;

use untrusted::Lines;

use crate::histogram::{self, Histogram};
use crate::manifest::Second;

/// Columns of the persistence picture; each is one period wide.
pub const SWEEP_COLUMNS: usize = 100;

/// Rows of the persistence picture: eight to an octave of latency.
pub const LEVELS: usize = histogram::BUCKETS >> LEVEL_SHIFT;

/// A histogram bucket's level is its index shifted by this.
pub const LEVEL_SHIFT: u32 = 7;

/// Seconds of one series that are read: eleven days.
pub const MOST_SECONDS: usize = 1_000_000;

/// Samples that no series exceeds: one every nanosecond of [`MOST_SECONDS`]. A file that counts more is
/// damaged.
pub(crate) const MOST_SAMPLES: u64 = MOST_SECONDS as u64 * 1_000_000_000;

/// Lines of a journal that are read. A writer leaves some hundred.
pub(crate) const MOST_LINES: usize = 10_000;

/// A cell's glow is brought up to date once this part of a half-life has passed.
const FADE_STEP: f64 = 1.0 / 64.0;

/// Everything that one series holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// Latencies, or gaps.
    pub latency: Histogram,
    /// How much shorter than the period intervals were.
    pub early: Histogram,
    /// How much longer than, or exactly as long as, the period intervals were.
    pub late: Histogram,
    /// Latency over the time within a sweep.
    pub persistence: Persistence,
    /// A row a second.
    pub seconds: Vec<Second>,
}

/// The persistence picture: sweeps of [`SWEEP_COLUMNS`] periods laid over each other, older ones fading.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Persistence {
    /// Its cells; their glow halves every [`Persistence::half_life_s`].
    pub cells: Cells,
    /// Seconds after which a count glows half as bright; 0: nothing fades.
    pub half_life_s: f64,
    /// The second that glow is stated for; less than 1/64 of a half-life ago.
    pub now_s: u32,
}

impl Persistence {
    /// Adds `count` samples of second `second`, which must not go backwards.
    pub fn add(&mut self, column: u16, level: u16, count: u64, second: u32) {
        self.fade_to(second);
        let cell = self.cells.at_mut(usize::from(column), usize::from(level));
        cell.count = cell.count.saturating_add(count);
        cell.glow += count as f64;
    }

    /// Lets every cell fade until `second`, in steps too small to see: a step costs a look at every cell.
    fn fade_to(&mut self, second: u32) {
        let passed_s = f64::from(second.saturating_sub(self.now_s));
        if self.half_life_s > 0.0 && passed_s >= self.half_life_s * FADE_STEP {
            let fade = (-passed_s / self.half_life_s).exp2();
            self.cells.fade(fade);
            self.now_s = second;
        }
    }

    /// The smallest latency that `level` stands for.
    pub fn level_from_ns(level: u16) -> u64 {
        histogram::lowest(usize::from(level) << LEVEL_SHIFT)
    }
}

/// The samples in one cell of the persistence picture.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cell {
    /// Their number.
    pub count: u64,
    /// The brightness of what is left of them.
    pub glow: f64,
}

/// The cells of a persistence picture, in whole levels: a series has few levels and, in time, all of their
/// cells. A map would take three times the memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cells(Vec<Option<Box<[Cell; SWEEP_COLUMNS]>>>);

impl Cells {
    /// The cells with samples, each with column and level, in the order of these.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u16, Cell)> + '_ {
        (0..SWEEP_COLUMNS).flat_map(move |column| {
            let levels = self.0.iter().enumerate();
            levels.filter_map(move |(level, cells)| {
                let cell = cells.as_ref()?[column];
                (cell != Cell::default()).then_some((column as u16, level as u16, cell))
            })
        })
    }

    /// Whether it has no samples.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The number of samples in a cell.
    pub(crate) fn count_at(&self, column: usize, level: usize) -> u64 {
        self.0.get(level).and_then(Option::as_ref).map_or(0, |cells| cells[column].count)
    }

    fn at_mut(&mut self, column: usize, level: usize) -> &mut Cell {
        if level >= self.0.len() {
            self.0.resize(level + 1, None);
        }
        &mut self.0[level].get_or_insert_with(|| Box::new([Cell::default(); SWEEP_COLUMNS]))[column]
    }

    fn fade(&mut self, by: f64) {
        self.0.iter_mut().flatten().flat_map(|cells| cells.iter_mut()).for_each(|cell| cell.glow *= by);
    }

    /// Bytes of memory that they take.
    fn held_bytes(&self) -> usize {
        self.0.len() * size_of::<usize>()
            + self.0.iter().flatten().count() * size_of::<[Cell; SWEEP_COLUMNS]>()
    }
}

/// The data of one second: the row, and counts by bucket since the line before.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct JournalLine {
    pub row: Second,
    /// Latency bucket to count.
    pub latency: Vec<(usize, u64)>,
    /// Jitter bucket (negative side as -1 - index) to count.
    pub jitter: Vec<(isize, u64)>,
    /// Persistence cell (column * [`LEVELS`] + level) to count.
    pub cells: Vec<(usize, u64)>,
}

impl JournalLine {
    pub fn write(&self, out: &mut String) {
        let Second { second, count, min_ns, sum_ns, max_ns, missed } = self.row;
        let _ = write!(out, "{second},{count},{min_ns},{sum_ns},{max_ns},{missed}");
        pairs(out, &self.latency);
        pairs(out, &self.jitter);
        pairs(out, &self.cells);
        out.push_str("|.\n");
    }

    /// Reads a line; `None` where it was cut short.
    pub fn read(line: &str) -> Option<JournalLine> {
        let mut parts = line.strip_suffix("|.")?.split('|');
        let row = parts.next()?.split(',').map(|n| n.parse().ok()).collect::<Option<Vec<u64>>>()?;
        let [second, count, min_ns, sum_ns, max_ns, missed] = row.try_into().ok()?;
        let row = Second { second: u32::try_from(second).ok()?, count, min_ns, sum_ns, max_ns, missed };
        let line = JournalLine {
            row,
            latency: unpair(parts.next()?)?,
            jitter: unpair(parts.next()?)?,
            cells: unpair(parts.next()?)?,
        };
        let counts = line.latency.iter().map(|(_, count)| count);
        let counts = counts.chain(line.jitter.iter().map(|(_, count)| count));
        let mut counts = counts.chain(line.cells.iter().map(|(_, count)| count));
        (row.can_be() && counts.all(|count| *count <= MOST_SAMPLES)).then_some(line)
    }
}

fn pairs<K: std::fmt::Display>(out: &mut String, counts: &[(K, u64)]) {
    out.push('|');
    for (n, (key, count)) in counts.iter().enumerate() {
        let separator = if n == 0 { "" } else { " " };
        let _ = write!(out, "{separator}{key}:{count}");
    }
}

fn unpair<K: std::str::FromStr>(text: &str) -> Option<Vec<(K, u64)>> {
    let pair = |word: &str| word.split_once(':').and_then(|(k, c)| Some((k.parse().ok()?, c.parse().ok()?)));
    text.split(' ').filter(|word| !word.is_empty()).map(pair).collect()
}

impl Series {
    /// Takes in a journal line.
    pub(crate) fn apply(&mut self, line: &JournalLine) {
        self.push_second(line.row);
        let sum_ns = self.latency.sum_ns();
        for (index, count) in line.latency.iter().filter(|(index, _)| *index < histogram::BUCKETS) {
            let from_ns =
                histogram::lowest(*index).clamp(line.row.min_ns, line.row.max_ns.max(line.row.min_ns));
            self.latency.add(*index, *count, 0, from_ns, from_ns);
        }
        self.latency.set_sum(sum_ns.saturating_add(u128::from(line.row.sum_ns)));
        if line.row.count > 0 {
            self.latency.widen(line.row.min_ns, line.row.max_ns);
        }
        for (signed, count) in &line.jitter {
            let (side, index) = if *signed < 0 {
                (&mut self.early, (-1 - signed) as usize)
            } else {
                (&mut self.late, *signed as usize)
            };
            if index < histogram::BUCKETS {
                let value_ns = histogram::lowest(index);
                side.add(index, *count, u128::from(value_ns) * u128::from(*count), value_ns, value_ns);
            }
        }
        for (cell, count) in &line.cells {
            let (column, level) = (cell / LEVELS, cell % LEVELS);
            if column < SWEEP_COLUMNS {
                self.persistence.add(column as u16, level as u16, *count, line.row.second);
            }
        }
    }

    /// Takes in a second, of which the counts are known.
    pub(crate) fn push_second(&mut self, row: Second) {
        match self.seconds.last_mut() {
            Some(last) if last.second == row.second => *last = row.joined(last),
            _ => self.seconds.push(row),
        }
    }

    /// Periods missed in all.
    pub fn missed(&self) -> u64 {
        self.seconds.iter().fold(0, |sum: u64, second| sum.saturating_add(second.missed))
    }

    /// Mean and standard deviation of the signed jitter.
    pub fn jitter_mean_stddev_ns(&self) -> (f64, f64) {
        let count = (self.early.count() + self.late.count()) as f64;
        if count == 0.0 {
            return (0.0, 0.0);
        }
        let moments = |side: &Histogram, sign: f64| {
            side.buckets().fold((0.0, 0.0), |(sum, squares), b| {
                let value = sign * (b.from_ns as f64 + (b.to_ns - b.from_ns) as f64 / 2.0);
                (sum + value * b.count as f64, squares + value * value * b.count as f64)
            })
        };
        let (early, late) = (moments(&self.early, -1.0), moments(&self.late, 1.0));
        let mean = (early.0 + late.0) / count;
        (mean, ((early.1 + late.1) / count - mean * mean).max(0.0).sqrt())
    }

    /// The text of `STEM.histograms.csv`.
    pub(crate) fn histograms_text(&self, through_second: Option<u32>) -> String {
        let mut out = String::new();
        let mean = self.latency.sum_ns();
        let (min_ns, max_ns) = (self.latency.min_ns(), self.latency.max_ns());
        let through = through_second.map_or_else(|| "none".to_string(), |second| second.to_string());
        let _ =
            writeln!(out, "# isolator histograms, schema 1; buckets are at most 1/1024 of their value wide");
        let _ = writeln!(
            out,
            "# through_second {through}\n# sum_ns {mean}\n# min_ns {min_ns}\n# max_ns {max_ns}"
        );
        let _ = writeln!(
            out,
            "# half_life_s {}\n# now_s {}",
            self.persistence.half_life_s, self.persistence.now_s
        );
        out.push_str("# latency: from_ns,to_ns,count\n");
        for b in self.latency.buckets() {
            let _ = writeln!(out, "{},{},{}", b.from_ns, b.to_ns, b.count);
        }
        out.push_str("\n\n# jitter: from_ns,to_ns,count\n");
        for b in self.early.buckets().collect::<Vec<_>>().iter().rev() {
            let _ = writeln!(out, "-{},-{},{}", b.to_ns, b.from_ns, b.count);
        }
        for b in self.late.buckets() {
            let _ = writeln!(out, "{},{},{}", b.from_ns, b.to_ns, b.count);
        }
        out.push_str("\n\n# persistence: column,from_ns,count,glow\n");
        for (column, level, Cell { count, glow }) in self.persistence.cells.iter() {
            let _ = writeln!(out, "{column},{},{count},{glow:.6}", Persistence::level_from_ns(level));
        }
        out.push_str("# end\n");
        out
    }

    /// Bytes of memory that it takes.
    pub(crate) fn held_bytes(&self) -> usize {
        let histograms = [&self.latency, &self.early, &self.late].map(Histogram::held_bytes);
        let seconds = self.seconds.len() * size_of::<Second>();
        histograms.iter().sum::<usize>() + self.persistence.cells.held_bytes() + seconds
    }

    /// Reads `STEM.histograms.csv` into this series; says through which second it speaks. Of a damaged file
    /// what can be read is kept.
    pub(crate) fn read_histograms(&mut self, lines: Lines<impl Read>) -> Result<Option<u32>, String> {
        let mut head = HistogramHead::default();
        let read = self.read_blocks(lines, &mut head);
        if let Some(sum_ns) = head.sum_ns {
            self.latency.set_sum(sum_ns);
        }
        let Some((min_ns, max_ns)) = head.min_ns.zip(head.max_ns) else {
            return read.and(Err("minimum or maximum is missing".to_string()));
        };
        let is_empty = self.latency.count() == 0;
        if !is_empty {
            // A bucket begins below the smallest value in it; the largest is never below the last bucket.
            let last_ns = self.latency.max_ns();
            self.latency.set_extremes(min_ns, max_ns.max(last_ns));
            if max_ns < last_ns {
                return read.and(Err(format!("the maximum {max_ns} ns is below the last bucket")));
            }
        }
        read?;
        match (head.sum_ns, head.through) {
            (None, _) => Err("the sum is missing".to_string()),
            (_, None) => Err("through which second it speaks is missing".to_string()),
            _ if min_ns > max_ns => Err("the minimum is above the maximum".to_string()),
            (Some(sum_ns), _) if is_empty && (sum_ns, min_ns, max_ns) != (0, 0, 0) => {
                Err("it has a sum, minimum or maximum of no samples".to_string())
            }
            (_, Some(through)) => Ok(through),
        }
    }

    fn read_blocks(&mut self, mut lines: Lines<impl Read>, head: &mut HistogramHead) -> Result<(), String> {
        let (mut block, mut ended) = ("", false);
        let mut before = None;
        for n in 1_u64.. {
            let bad = |why: &str| format!("line {n}: {why}");
            let Some(line) = lines.next_line().map_err(|e| bad(&e.to_string()))? else { break };
            let line = line.trim_end_matches(['\n', '\r']);
            if ended {
                return Err(bad("it goes on after its end"));
            }
            if let Some(comment) = line.strip_prefix("# ") {
                let (word, value) = comment.split_once(' ').unwrap_or((comment, ""));
                match word {
                    "latency:" => block = "latency:",
                    "jitter:" => block = "jitter:",
                    "persistence:" => block = "persistence:",
                    "end" => ended = true,
                    "half_life_s" => {
                        let half_life_s = finite(value).ok_or_else(|| bad("not a half-life"))?;
                        self.persistence.half_life_s = half_life_s;
                    }
                    "now_s" => self.persistence.now_s = value.parse().map_err(|_| bad("not a second"))?,
                    _ => head.take(word, value),
                }
                continue;
            }
            if line.is_empty() {
                continue;
            }
            let fields = line.splitn(5, ',').collect::<Vec<_>>();
            let number = |text: &str| text.parse::<u64>().map_err(|_| bad("not a count"));
            let number_of = |text: &str| match number(text)? {
                count if count > MOST_SAMPLES => Err(bad("more samples than a run can have")),
                count => Ok(count),
            };
            match (block, fields.as_slice()) {
                ("latency:", [from_ns, to_ns, count]) => {
                    let (from_ns, to_ns) = (number(from_ns)?, number(to_ns)?);
                    let index = histogram::index(from_ns);
                    self.latency.record_many(from_ns, number_of(count)?);
                    if histogram::index(to_ns) != index || before >= Some(index) {
                        self.latency.widen(from_ns, to_ns.max(from_ns));
                        return Err(bad("not the next bucket"));
                    }
                    before = Some(index);
                }
                ("jitter:", [from_ns, to_ns, count]) => {
                    let count = number_of(count)?;
                    match (from_ns.strip_prefix('-'), to_ns.strip_prefix('-')) {
                        (Some(_), Some(nearest)) => self.early.record_many(number(nearest)?, count),
                        _ => self.late.record_many(number(from_ns)?, count),
                    }
                }
                ("persistence:", [column, from_ns, count, glow]) => {
                    let column = number(column)? as usize;
                    let glow = finite(glow).ok_or_else(|| bad("not a glow"))?;
                    if column >= SWEEP_COLUMNS {
                        return Err(bad("no such column"));
                    }
                    let level = histogram::index(number(from_ns)?) >> LEVEL_SHIFT;
                    *self.persistence.cells.at_mut(column, level) = Cell { count: number_of(count)?, glow };
                }
                ("", _) => return Err(bad("data before a block began")),
                _ => return Err(bad("not a row of its block")),
            }
        }
        if [&self.latency, &self.early, &self.late].iter().any(|all| all.count() > MOST_SAMPLES) {
            return Err("it has more samples than a run can have".to_string());
        }
        match (ended, block) {
            (true, "persistence:") => Ok(()),
            _ => Err("it was cut short".to_string()),
        }
    }

    /// Where histogram and seconds differ, the larger maximum counts.
    pub(crate) fn take_the_worst(&mut self) {
        let counted = self.seconds.iter().filter(|second| second.count > 0);
        if let Some(max_ns) = counted.map(|second| second.max_ns).max()
            && self.latency.count() > 0
            && max_ns > self.latency.max_ns()
        {
            self.latency.widen(max_ns, max_ns);
        }
        if let Some(last) = self.latency.buckets().last()
            && last.from_ns > self.latency.max_ns()
        {
            self.latency.widen(last.from_ns, last.from_ns);
        }
    }
}

/// The head of the blocks of `STEM.histograms.csv`.
#[derive(Debug, Default)]
struct HistogramHead {
    /// `Some(None)`: it says that it speaks of no second.
    through: Option<Option<u32>>,
    sum_ns: Option<u128>,
    min_ns: Option<u64>,
    max_ns: Option<u64>,
}

impl HistogramHead {
    fn take(&mut self, word: &str, value: &str) {
        match word {
            "through_second" if value == "none" => self.through = Some(None),
            "through_second" => self.through = value.parse().ok().map(Some),
            "sum_ns" => self.sum_ns = value.parse().ok(),
            "min_ns" => self.min_ns = value.parse().ok(),
            "max_ns" => self.max_ns = value.parse().ok(),
            _ => {}
        }
    }
}

/// A number that is neither negative nor infinite.
fn finite(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)
}

/// First line of `STEM.seconds.csv`.
pub(crate) const SECONDS_HEAD: &str = "second,count,min_ns,mean_ns,max_ns,missed\n";

/// One row of `STEM.seconds.csv`.
pub(crate) fn second_text(row: &Second) -> String {
    let mean_ns = if row.count == 0 { 0.0 } else { row.sum_ns as f64 / row.count as f64 };
    format!("{},{},{},{mean_ns:.3},{},{}\n", row.second, row.count, row.min_ns, row.max_ns, row.missed)
}

/// Reads `STEM.seconds.csv` into `rows`; a last line that was cut short is dropped, and reported.
pub(crate) fn read_seconds(mut lines: Lines<impl Read>, rows: &mut Vec<Second>) -> Result<(), String> {
    for n in 1_u64.. {
        let line = lines.next_line().map_err(|e| format!("line {n}: {e}"))?;
        let line = match line {
            None if n > 1 => break,
            line => line.unwrap_or_default(),
        };
        let whole = line.strip_suffix('\n').map(|line| line.trim_end_matches('\r'));
        match (n, whole) {
            (1, Some(head)) if head == SECONDS_HEAD.trim_end() => {}
            (1, _) => return Err("it does not begin with its columns' names".to_string()),
            (_, None) => return Err("its last line was cut short".to_string()),
            _ if rows.len() == MOST_SECONDS => {
                return Err(format!("it has more than {MOST_SECONDS} seconds"));
            }
            (_, Some(line)) => {
                let row = read_second(line).filter(Second::can_be);
                rows.push(row.ok_or_else(|| format!("line {n}: not a row of seconds"))?);
            }
        }
    }
    rows.shrink_to_fit();
    Ok(())
}

fn read_second(line: &str) -> Option<Second> {
    let mut fields = line.split(',');
    let second = fields.next()?.parse().ok()?;
    let count: u64 = fields.next()?.parse().ok()?;
    let min_ns = fields.next()?.parse().ok()?;
    let mean_ns = finite(fields.next()?)?;
    let max_ns = fields.next()?.parse().ok()?;
    let missed = fields.next()?.parse().ok()?;
    if fields.next().is_some() {
        return None;
    }
    let sum_ns = (mean_ns * count as f64).round() as u64;
    Some(Second { second, count, min_ns, sum_ns, max_ns, missed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(second: u32) -> JournalLine {
        let row = Second { second, count: 3, min_ns: 900, sum_ns: 1_003_900, max_ns: 1_002_000, missed: 1 };
        let index = histogram::index;
        JournalLine {
            row,
            latency: vec![(index(900), 1), (index(1000), 1), (index(1_002_000), 1)],
            jitter: vec![(-1 - index(5_000) as isize, 2), (index(0) as isize, 1)],
            cells: vec![(7 * LEVELS + (index(900) >> LEVEL_SHIFT), 3)],
        }
    }

    #[test]
    fn a_series_survives_writing_and_reading() {
        let mut series = Series::default();
        series.persistence.half_life_s = 5.0;
        (0..3).for_each(|second| series.apply(&line(second)));
        let mut read = Series { seconds: series.seconds.clone(), ..Series::default() };
        assert_eq!(read.read_histograms(Lines::of(series.histograms_text(Some(2)).as_bytes())), Ok(Some(2)));
        assert_eq!(read.latency, series.latency);
        assert_eq!(read.early.count(), 6);
        assert_eq!(read.late.count(), 3);
        assert_eq!(read.histograms_text(Some(2)), series.histograms_text(Some(2)));
    }

    #[test]
    fn seconds_that_come_together_keep_the_smallest_value_exact() {
        let mut series = Series::default();
        // Of several seconds at once, the last alone brings the buckets.
        series.apply(&JournalLine { row: line(0).row, ..JournalLine::default() });
        series.apply(&JournalLine { row: Second { min_ns: 950, ..line(1).row }, ..line(1) });
        assert_eq!((series.latency.min_ns(), series.latency.max_ns()), (900, 1_002_000));
    }

    #[test]
    fn a_journal_line_cut_short_anywhere_is_dropped() {
        let mut text = String::new();
        line(4).write(&mut text);
        assert_eq!(JournalLine::read(text.trim_end()), Some(line(4)));
        for end in 0..text.len() - 1 {
            assert_eq!(JournalLine::read(&text[..end]), None, "{}", &text[..end]);
        }
    }

    #[test]
    fn older_sweeps_fade() {
        let mut picture = Persistence { half_life_s: 2.0, ..Persistence::default() };
        picture.add(0, 0, 8, 0);
        picture.add(1, 0, 1, 4);
        let cell = |count, glow| Cell { count, glow };
        assert_eq!(picture.cells.iter().collect::<Vec<_>>(), [(0, 0, cell(8, 2.0)), (1, 0, cell(1, 1.0))]);
    }
}
