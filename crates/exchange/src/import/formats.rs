// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of all formats, each with its description.

use super::scan::format::Description;
use super::scan::says::FormatQuestion;
use super::{
    cyclictest, deadline_test, hwlatdetect, jitterdebugger, latmus, linuxcnc, oslat, pairs, rt_tests, rteval,
    rtla, rtla_top, stress_ng, threads, xenomai,
};

macro_rules! formats {
    ($($(#[doc = $doc:literal])+ $name:ident = $description:expr;)+) => {
        /// A format that can be read.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ImportFormat { $($(#[doc = $doc])+ $name,)+ }

        impl ImportFormat {
            /// All of them.
            pub const ALL: [ImportFormat; [$(stringify!($name)),+].len()] = [$(ImportFormat::$name),+];

            pub(super) fn description(self) -> &'static Description {
                match self { $(ImportFormat::$name => &$description,)+ }
            }
        }
    };
}

formats! {
    /// jitterdebugger's `results.json`.
    Jitterdebugger = jitterdebugger::FORMAT;
    /// `--json` of pmqtest, ptsematest, svsematest, sigwaittest, signaltest and cyclicdeadline.
    RtTestsJson = rt_tests::OTHERS;
    /// `cyclictest --json`.
    CyclictestJson = rt_tests::CYCLICTEST;
    /// `oslat --json`.
    OslatJson = rt_tests::OSLAT;
    /// `cyclictest -h`, `-H` or `--histfile`.
    CyclictestHistogram = cyclictest::HISTOGRAM;
    /// `cyclictest -v`: `thread:cycle:latency`, a line a sample.
    CyclictestVerbose = cyclictest::SAMPLES;
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
    Xenomai = xenomai::FORMAT;
    /// `latmus -g`.
    Latmus = latmus::FORMAT;
    /// Lines that pmqtest, ptsematest, svsematest and sigwaittest print.
    PairsText = pairs::FORMAT;
    /// Lines that signaltest prints.
    Signaltest = threads::SIGNALTEST;
    /// Lines that cyclicdeadline prints.
    Cyclicdeadline = threads::CYCLICDEADLINE;
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

#[cfg(test)]
mod tests {
    use super::ImportFormat;

    #[test]
    fn parts_are_formats() {
        let names = ImportFormat::ALL.map(ImportFormat::name);
        for format in ImportFormat::ALL {
            assert!(format.description().parts.iter().all(|part| names.contains(part)), "{}", format.name());
        }
    }
}
