// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of all formats, each with its description. A new one is a file in `formats`, with its `mod` and
//! its line here, and a fixture with its lines in `tests/expected.txt`.

use super::scan::format::Description;
use super::scan::says::FormatQuestion;

mod cyclictest;
mod deadline_test;
mod documents;
mod hwlatdetect;
mod linuxcnc;
mod oslat;
mod pairs;
mod rteval;
mod rtla;
mod rtla_top;
mod stress_ng;
mod threads;
mod xenomai;

macro_rules! formats {
    ($($(#[doc = $doc:literal])+ $name:ident = $description:expr $(, with $($part:ident),+)?;)+) => {
        /// A format that can be read.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ImportFormat { $($(#[doc = $doc])+ $name,)+ }

        impl ImportFormat {
            /// All of them.
            pub const ALL: [ImportFormat; [$(stringify!($name)),+].len()] = [$(ImportFormat::$name),+];

            pub(super) fn description(self) -> &'static Description {
                match self { $(ImportFormat::$name => &$description,)+ }
            }

            /// The formats whose lines one run of the tool may print besides.
            pub(super) fn parts(self) -> &'static [ImportFormat] {
                match self { $(ImportFormat::$name => &[$($(ImportFormat::$part),+)?],)+ }
            }
        }
    };
}

formats! {
    /// jitterdebugger's `results.json`.
    Jitterdebugger = documents::JITTERDEBUGGER;
    /// `--json` of pmqtest, ptsematest, svsematest, sigwaittest, signaltest and cyclicdeadline.
    RtTestsJson = documents::OTHERS;
    /// `cyclictest --json`.
    CyclictestJson = documents::CYCLICTEST;
    /// `oslat --json`.
    OslatJson = documents::OSLAT;
    /// `cyclictest -h`, `-H` or `--histfile`.
    CyclictestHistogram = cyclictest::HISTOGRAM, with CyclictestSummary, CyclictestVerbose;
    /// `cyclictest -v`: `thread:cycle:latency`, a line a sample.
    CyclictestVerbose = cyclictest::SAMPLES, with CyclictestSummary;
    /// cyclictest's `T: 0 ( 3407) P:80 …` lines alone.
    CyclictestSummary = cyclictest::SUMMARY;
    /// Lines that oslat prints.
    OslatText = oslat::FORMAT;
    /// `rtla timerlat hist`.
    Timerlat = rtla::TIMERLAT;
    /// `rtla osnoise hist`.
    Osnoise = rtla::OSNOISE;
    /// Lines that hwlatdetect prints.
    Hwlatdetect = hwlatdetect::FORMAT;
    /// Tables of Xenomai's `latency` and of EVL's `latmus`.
    Xenomai = xenomai::TABLE;
    /// `latmus -g`.
    Latmus = xenomai::HISTOGRAM, with Xenomai;
    /// Lines that pmqtest, ptsematest, svsematest and sigwaittest print.
    PairsText = pairs::FORMAT;
    /// Lines that signaltest prints.
    Signaltest = threads::SIGNALTEST, with CyclictestVerbose;
    /// Lines that cyclicdeadline prints.
    Cyclicdeadline = threads::CYCLICDEADLINE, with CyclictestVerbose;
    /// Lines that deadline_test prints.
    DeadlineTest = deadline_test::FORMAT;
    /// `rtla timerlat top`.
    TimerlatTop = rtla_top::TIMERLAT;
    /// `rtla osnoise top` and `rtla hwnoise`.
    OsnoiseTop = rtla_top::OSNOISE;
    /// `stress-ng --cyclic`.
    StressNg = stress_ng::FORMAT;
    /// LinuxCNC's latency-test.
    LinuxcncTest = linuxcnc::TEST;
    /// LinuxCNC's `latency-histogram --nox`.
    LinuxcncHistogram = linuxcnc::HISTOGRAM;
    /// rteval's `summary.xml`.
    Rteval = rteval::FORMAT;
}

impl ImportFormat {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        self.description().name
    }

    /// The lines that answer a question, as patterns. Absent: the second text says which field of the file
    /// answers it, or why the tool never states such a thing.
    pub fn answer(self, question: FormatQuestion) -> (Vec<&'static str>, Option<&'static str>) {
        self.description().answer(question)
    }
}
