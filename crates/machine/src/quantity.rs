// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures with all that belongs to them: a time with its unit, a count of a population, the share of one
//! count in another of the same population, and sentences with such figures in them.
//!
//! A producer hands over the figure, and the output writes it: a terminal, JSON and JUnit as [`Sign::Plain`],
//! a page as [`Sign::Page`]. [`crate::units`] has the digits of each.
//!
//! Limit: text that a bundle or another program brings is text, and stays as it is written.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::iter::Sum;
use std::marker::PhantomData;
use std::ops::{Add, Deref};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::units;

/// Which signs an output takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// Those of every terminal, of JSON and of JUnit: `12 us`, `1 to 3`.
    Plain,
    /// Those of a page: `12 µs`, `1–3`.
    Page,
}

impl Sign {
    /// The unit of most figures.
    pub fn us(self) -> &'static str {
        match self {
            Sign::Plain => "us",
            Sign::Page => "µs",
        }
    }
}

/// A figure, a sentence with figures, or plain text: each output writes it with its own signs.
pub trait Say {
    /// With the signs of this output.
    fn write(&self, sign: Sign) -> String;
}

impl Say for str {
    fn write(&self, _: Sign) -> String {
        self.to_string()
    }
}

impl Say for String {
    fn write(&self, _: Sign) -> String {
        self.clone()
    }
}

impl<T: Say + ?Sized> Say for &T {
    fn write(&self, sign: Sign) -> String {
        (**self).write(sign)
    }
}

/// Digits of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Digits {
    Measured,
    Tenth,
    Exact,
    Round,
}

/// A time in nanoseconds, and the digits of it that mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time {
    ns: u64,
    digits: Digits,
}

impl Time {
    /// One that was measured: `1,854 us`.
    pub fn measured(ns: u64) -> Time {
        Time { ns, digits: Digits::Measured }
    }

    /// One of several that add up: `1,854.3 us`.
    pub fn part(ns: u64) -> Time {
        Time { ns, digits: Digits::Tenth }
    }

    /// One that was set or requested, with all its digits: `1,333.333 us`.
    pub fn exact(ns: u64) -> Time {
        Time { ns, digits: Digits::Exact }
    }

    /// A round one in the largest unit that leaves it above one: `25 us`, `1 ms`.
    pub fn round(ns: u64) -> Time {
        Time { ns, digits: Digits::Round }
    }
}

impl Say for Time {
    fn write(&self, sign: Sign) -> String {
        let figure = match self.digits {
            Digits::Measured => units::figure(self.ns as f64),
            Digits::Tenth => units::tenth(self.ns),
            Digits::Exact => units::exact(self.ns),
            Digits::Round => {
                let (unit, name) = match self.ns {
                    ..1_000 => (1.0, "ns"),
                    1_000..1_000_000 => (1e3, sign.us()),
                    1_000_000..1_000_000_000 => (1e6, "ms"),
                    _ => (1e9, "s"),
                };
                return format!("{} {name}", (self.ns as f64 / unit * 1000.0).round() / 1000.0);
            }
        };
        format!("{figure} {}", sign.us())
    }
}

/// A kind of things that are counted; counts of different populations do not mix.
pub trait Population: fmt::Debug + Send + Sync + 'static {
    /// One of it.
    const ONE: &'static str;
    /// Several.
    const MANY: &'static str;
}

macro_rules! populations {
    ($($(#[$about:meta])+ $name:ident = $one:literal, $many:literal;)+) => {
        $($(#[$about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name;

        impl Population for $name {
            const ONE: &'static str = $one;
            const MANY: &'static str = $many;
        })+
    };
}

populations! {
    /// Latencies that were measured.
    Samples = "sample", "samples";
    /// Periods that went by without a cycle.
    MissedPeriods = "missed period", "missed periods";
    /// Cycles that were due: those with a sample, and those whose period was missed.
    Cycles = "cycle", "cycles";
    /// Machines of a fleet.
    Machines = "machine", "machines";
    /// Nanoseconds of a longer time.
    Nanoseconds = "ns", "ns";
}

/// How many there are: exactly, or between two numbers where a source is not exact.
#[derive(Debug)]
pub struct Count<P> {
    least: u64,
    most: u64,
    of: PhantomData<P>,
}

impl<P> Clone for Count<P> {
    fn clone(&self) -> Count<P> {
        *self
    }
}

impl<P> Copy for Count<P> {}

impl<P> PartialEq for Count<P> {
    fn eq(&self, other: &Count<P>) -> bool {
        (self.least, self.most) == (other.least, other.most)
    }
}

impl<P> Count<P> {
    /// Exactly so many.
    pub const fn exact(number: u64) -> Count<P> {
        Count { least: number, most: number, of: PhantomData }
    }

    /// So many at the least, and so many at the most.
    pub fn between(least: u64, most: u64) -> Count<P> {
        Count { least, most: most.max(least), of: PhantomData }
    }

    /// So many at the least.
    pub fn least(self) -> u64 {
        self.least
    }

    /// So many at the most.
    pub fn most(self) -> u64 {
        self.most
    }
}

impl Count<Cycles> {
    /// Cycles that were due: each with a sample, and each whose period was missed.
    pub fn due(samples: Count<Samples>, missed: Count<MissedPeriods>) -> Count<Cycles> {
        let sum = |a: u64, b: u64| a.saturating_add(b);
        Count::between(sum(samples.least, missed.least), sum(samples.most, missed.most))
    }
}

impl<P> Add for Count<P> {
    type Output = Count<P>;

    /// Never more than a `u64` holds: a bundle from elsewhere may count anything.
    fn add(self, other: Count<P>) -> Count<P> {
        Count::between(self.least.saturating_add(other.least), self.most.saturating_add(other.most))
    }
}

impl<P> Sum for Count<P> {
    fn sum<I: Iterator<Item = Count<P>>>(counts: I) -> Count<P> {
        counts.fold(Count::exact(0), Add::add)
    }
}

impl<P: Population> Say for Count<P> {
    fn write(&self, sign: Sign) -> String {
        let (least, most) = (units::count(self.least), units::count(self.most));
        match sign {
            _ if self.most == self.least => least,
            Sign::Plain => format!("{least} to {most}"),
            Sign::Page => format!("{least}–{most}"),
        }
    }
}

impl<P: Population> Count<P> {
    /// With the word for what is counted: `1 machine`, `12 machines`.
    pub fn named(self) -> String {
        let word = if self.least == 1 && self.most == 1 { P::ONE } else { P::MANY };
        format!("{} {word}", self.write(Sign::Plain))
    }
}

/// The share of a part in its whole, from 0 to 1. Both are counts of one population, so that a share of other
/// things cannot be written; it is never above one, whatever a damaged source counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(f64);

impl Share {
    /// The share at the most, where the part is not known exactly.
    ///
    /// ```compile_fail
    /// use machine::quantity::{Count, Cycles, Samples, Share};
    /// // Missed periods are late, and have no sample: this would be above 100 %.
    /// let late: Count<Cycles> = Count::exact(3);
    /// let samples: Count<Samples> = Count::exact(2);
    /// Share::of(late, samples);
    /// ```
    pub fn of<P: Population>(part: Count<P>, whole: Count<P>) -> Share {
        Share::stated(part.most as f64 / whole.least.max(1) as f64)
    }

    /// The share in words, from the least to the most where the part is not known exactly.
    pub fn from_to<P: Population>(part: Count<P>, whole: Count<P>) -> String {
        let share = |part: u64| Share::of(Count::<P>::exact(part), whole).in_words();
        let (least, most) = (share(part.least), share(part.most));
        if least == most { most } else { format!("{least} to {most}") }
    }

    /// The share of a time in a longer one.
    pub fn of_time(part_ns: u64, whole_ns: u64) -> Share {
        Share::of::<Nanoseconds>(Count::exact(part_ns), Count::exact(whole_ns))
    }

    /// A share that a source states.
    pub fn stated(share: f64) -> Share {
        Share(if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) })
    }

    /// From 0 to 1.
    pub fn value(self) -> f64 {
        self.0
    }

    /// In per cent.
    pub fn percent(self) -> f64 {
        100.0 * self.0
    }

    /// In per cent, rounded down to a tenth: a share of less than all is never `100 %`.
    pub fn at_least(self) -> String {
        format!("{} %", (self.0 * 1000.0 + 1e-9).floor() / 10.0)
    }

    /// In a million, rounded up: a share of more than none is never `0`.
    pub fn in_a_million(self) -> String {
        format!("{} in 1e6", units::count((self.0 * 1e6).ceil() as u64))
    }

    /// In words that tell a small share from none: `none`, `less than 0.001 %`, `0.380 %`, `12.3 %`.
    pub fn in_words(self) -> String {
        match self.percent() {
            0.0 => "none".to_string(),
            ..0.001 => "less than 0.001 %".to_string(),
            share @ ..1.0 => format!("{share:.3} %"),
            share => format!("{share:.1} %"),
        }
    }
}

/// Text with figures in it: plain text wherever it is taken for text, JSON included.
#[derive(Debug, Clone, Default)]
pub struct Sentence {
    plain: String,
    page: String,
}

impl Sentence {
    /// The parts one after the other; [`sentence!`](crate::sentence) calls it.
    pub fn of(parts: &[&dyn Say]) -> Sentence {
        let [plain, page] =
            [Sign::Plain, Sign::Page].map(|sign| parts.iter().map(|part| part.write(sign)).collect());
        Sentence { plain, page }
    }

    /// The sentences one after the other, with `between` between two.
    pub fn joined(sentences: &[Sentence], between: &str) -> Sentence {
        let [plain, page] = [|one: &Sentence| one.plain.clone(), |one: &Sentence| one.page.clone()]
            .map(|of| sentences.iter().map(of).collect::<Vec<_>>().join(between));
        Sentence { plain, page }
    }

    /// With the signs of a page.
    pub fn page(&self) -> &str {
        &self.page
    }
}

impl Say for Sentence {
    fn write(&self, sign: Sign) -> String {
        match sign {
            Sign::Plain => self.plain.clone(),
            Sign::Page => self.page.clone(),
        }
    }
}

/// A [`Sentence`] of text, figures and sentences: `sentence!["maximum ", Time::measured(ns)]`.
#[macro_export]
macro_rules! sentence {
    ($($part:expr),* $(,)?) => {
        $crate::quantity::Sentence::of(&[$(&$part as &dyn $crate::quantity::Say),*])
    };
}

impl From<String> for Sentence {
    fn from(text: String) -> Sentence {
        Sentence { page: text.clone(), plain: text }
    }
}

impl From<&str> for Sentence {
    fn from(text: &str) -> Sentence {
        text.to_string().into()
    }
}

impl From<Sentence> for String {
    fn from(sentence: Sentence) -> String {
        sentence.plain
    }
}

impl Deref for Sentence {
    type Target = str;

    fn deref(&self) -> &str {
        &self.plain
    }
}

impl Borrow<str> for Sentence {
    fn borrow(&self) -> &str {
        &self.plain
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.plain)
    }
}

/// Sentences are the same where their text is: those of a document that was read have no figures.
impl PartialEq for Sentence {
    fn eq(&self, other: &Sentence) -> bool {
        self.plain == other.plain
    }
}

impl PartialEq<&str> for Sentence {
    fn eq(&self, other: &&str) -> bool {
        self.plain == *other
    }
}

impl Serialize for Sentence {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.plain)
    }
}

impl<'de> Deserialize<'de> for Sentence {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Sentence, D::Error> {
        String::deserialize(from).map(Sentence::from)
    }
}

impl JsonSchema for Sentence {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_output_writes_times_with_its_signs() {
        let times = [
            (Time::measured(2_605_400), "2,605 us", "2,605 µs"),
            (Time::part(2_605_400), "2,605.4 us", "2,605.4 µs"),
            (Time::exact(1_333_333), "1,333.333 us", "1,333.333 µs"),
            (Time::round(25_000), "25 us", "25 µs"),
        ];
        for (time, plain, page) in times {
            assert_eq!((time.write(Sign::Plain).as_str(), time.write(Sign::Page).as_str()), (plain, page));
        }
        let times = [500, 25_000, 1_000_000, 1_500_000_000].map(|ns| Time::round(ns).write(Sign::Plain));
        assert_eq!(times, ["500 ns", "25 us", "1 ms", "1.5 s"]);
    }

    #[test]
    fn missed_periods_are_cycles_without_a_sample() {
        let due = Count::due(Count::exact(1), Count::exact(29_999));
        let late: Count<Cycles> = Count::exact(29_999);
        assert_eq!(due, Count::exact(30_000));
        assert_eq!(Share::of(late, due).in_words(), "100.0 %");
        assert_eq!(Share::of(late, due).at_least(), "99.9 %");
    }

    #[test]
    fn a_share_is_of_all_at_the_most() {
        let count = |number| Count::<Cycles>::exact(number);
        assert_eq!(Share::of(count(7), count(2)).value(), 1.0);
        assert_eq!(Share::of(count(0), count(0)).in_words(), "none");
        assert_eq!(Share::of(Count::between(1, 12_000), count(600_000)).in_words(), "2.0 %");
        assert_eq!(Share::of(count(1), count(1_000_000_000)).in_words(), "less than 0.001 %");
        assert_eq!(Share::of(count(1), count(3_000_000)).in_a_million(), "1 in 1e6");
        assert_eq!(Share::stated(f64::NAN).value(), 0.0);
    }

    #[test]
    fn counts_add_up_without_wrapping() {
        let all: Count<Samples> = [Count::exact(u64::MAX), Count::between(1, 2)].into_iter().sum();
        assert_eq!(all, Count::exact(u64::MAX));
        assert_eq!(Count::<Machines>::exact(1).named(), "1 machine");
        assert_eq!(Count::<Machines>::exact(1_200).named(), "1,200 machines");
    }

    #[test]
    fn a_sentence_is_plain_text_but_on_a_page() {
        let late: Count<Cycles> = Count::between(1, 12_000);
        let said = sentence!["maximum ", Time::measured(18_000), " (", late, " late)"];
        assert_eq!(said, "maximum 18.0 us (1 to 12,000 late)");
        assert_eq!(said.page(), "maximum 18.0 µs (1–12,000 late)");
        assert_eq!(serde_json::to_string(&said).unwrap(), "\"maximum 18.0 us (1 to 12,000 late)\"");
        let read: Sentence = serde_json::from_str("\"pid 5000, 3000 us\"").unwrap();
        assert_eq!(read.page(), "pid 5000, 3000 us", "text from elsewhere stays");
    }
}
