// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every fixture of the tools that state little more than their extremes, and its rows.

/// Probe, CPU, samples, and minimum, mean and maximum in microseconds, and periods missed, as the tool states
/// them.
pub type Expected = (&'static str, u32, u64, f64, f64, f64, u64);

/// A figure that the tool does not state.
pub const NONE: f64 = -1.0;

/// Every fixture, and its rows.
pub const EXPECTED: &[(&str, &[Expected])] = &[
    ("cyclicdeadline-2.4-screens.txt", &[("wakeup", 0, 100, 0.0, 15.0, 110.0, 0)]),
    (
        "cyclicdeadline-2.4.json",
        &[("wakeup", 0, 401, 1.0, 24.76, 116.0, 0), ("wakeup", 1, 334, 2.0, 20.71, 118.0, 0)],
    ),
    (
        "cyclicdeadline-2.4.txt",
        &[("wakeup", 0, 401, 1.0, 24.0, 116.0, 0), ("wakeup", 1, 334, 2.0, 20.0, 118.0, 0)],
    ),
    (
        "deadline_test-2.4.txt",
        &[
            ("execution", 0, 2001, 2320.0, 2382.0, 4560.0, 0),
            ("execution", 1, 1819, 2551.0, 2609.0, 4439.0, 0),
        ],
    ),
    ("hwnoise-6.12.txt", &[("noise", 1, 35, NONE, 128.0 / 35.0, 9.0, 0)]),
    (
        "jitterdebugger-0.1.json",
        &[("wakeup", 0, 2995, 6.0, 239.22, 35903.0, 0), ("wakeup", 1, 2995, 5.0, 14.58, 239.0, 0)],
    ),
    ("latmus-gnuplot.txt", &[("wakeup", 1, 3999, 0.0, 1.604, 27.904, 2)]),
    ("latmus-table.txt", &[("wakeup", 1, 8000, 0.425, 1.364, 7.765, 0)]),
    (
        "linuxcnc-histogram.txt",
        &[("wakeup", 1, 2, NONE, NONE, 11.1, 0), ("wakeup", 0, 2, NONE, NONE, 17.1, 0)],
    ),
    ("linuxcnc-latency-test-named.txt", &[("wakeup", 0, 2, NONE, NONE, 25.437, 0)]),
    (
        "linuxcnc-latency-test.txt",
        &[("wakeup", 1, 2, NONE, NONE, 10.654, 0), ("wakeup", 0, 2, NONE, NONE, 9.075, 0)],
    ),
    (
        "oslat-2.6-table.txt",
        &[("spin", 0, 40_840_065, 1.0, 1.002, 50350.0, 0), ("spin", 1, 38_728_785, 1.0, 1.002, 49825.0, 0)],
    ),
    (
        "osnoise-top-6.1-screens.txt",
        &[
            ("noise", 0, 652, NONE, 3124537.0 / 652.0, 76387.0, 0),
            ("noise", 1, 2017, NONE, 2309243.0 / 2017.0, 104346.0, 0),
        ],
    ),
    (
        "osnoise-top-6.1.txt",
        &[
            ("noise", 0, 549, NONE, 3133376.0 / 549.0, 50300.0, 0),
            ("noise", 1, 593, NONE, 2233257.0 / 593.0, 36255.0, 0),
        ],
    ),
    (
        "pmqtest-2.4.json",
        &[("message-mqueue", 0, 948, 3.0, 3.93, 39.0, 0), ("message-mqueue", 1, 632, 3.0, 3.73, 41.0, 0)],
    ),
    (
        "pmqtest-2.4.txt",
        &[("message-mqueue", 0, 948, 3.0, 4.0, 39.0, 0), ("message-mqueue", 1, 632, 3.0, 4.0, 41.0, 0)],
    ),
    (
        "ptsematest-2.4.json",
        &[("message-mutex", 0, 958, 2.0, 2.77, 6.0, 0), ("message-mutex", 1, 643, 2.0, 2.89, 42.0, 0)],
    ),
    (
        "ptsematest-2.4.txt",
        &[("message-unknown", 0, 957, 2.0, 3.0, 6.0, 0), ("message-unknown", 1, 642, 2.0, 3.0, 42.0, 0)],
    ),
    (
        "rteval-3-cyclictest.xml",
        &[("wakeup", 0, 6583, 2.0, 3.272, 17.0, 0), ("wakeup", 1, 6583, 2.0, 3.304, 23.0, 0)],
    ),
    (
        "rteval-3-timerlat.xml",
        &[("timerlat-user", 0, 6583, 2.0, 3.272, 17.0, 0), ("timerlat-user", 1, 6583, 2.0, 3.304, 23.0, 0)],
    ),
    (
        "signaltest-2.4-v.txt",
        &[("message-signal", 0, 40, 24.0, 33.0, 99.0, 0), ("message-signal", 1, 40, 25.0, 785.0, 10133.0, 0)],
    ),
    (
        "signaltest-2.4.json",
        &[
            ("message-signal", 0, 1457, 20.0, 37.65, 397.0, 0),
            ("message-signal", 1, 1457, 18.0, 672.34, 10451.0, 0),
        ],
    ),
    (
        "signaltest-2.4.txt",
        &[
            ("message-signal", 0, 1457, 20.0, 37.0, 397.0, 0),
            ("message-signal", 1, 1457, 18.0, 672.0, 10451.0, 0),
        ],
    ),
    (
        "sigwaittest-2.4-screens.txt",
        &[("message-unknown", 0, 906, 4.0, 6.0, 80.0, 0), ("message-unknown", 1, 609, 4.0, 6.0, 57.0, 0)],
    ),
    (
        "sigwaittest-2.4.json",
        &[("message-sigwait", 0, 948, 4.0, 5.88, 64.0, 0), ("message-sigwait", 1, 643, 4.0, 5.39, 43.0, 0)],
    ),
    ("stress-ng-0.15-distribution.txt", &[("wakeup", 0, 10_000, 9.883, 20.29355, 1373.375, 0)]),
    ("stress-ng-0.15-percentiles.txt", &[("wakeup", 0, 3683, 11.528, 26.94297, 394.456, 0)]),
    (
        "svsematest-2.4.json",
        &[
            ("message-semaphore", 0, 943, 3.0, 4.55, 58.0, 0),
            ("message-semaphore", 1, 641, 2.0, 4.13, 21.0, 0),
        ],
    ),
    (
        "timerlat-top-6.1-nanoseconds.txt",
        &[
            ("timerlat-irq", 0, 1993, 3.89, 582.35, 15464.39, 0),
            ("timerlat-thread", 0, 1993, 19.54, 619.759, 15526.68, 0),
            ("timerlat-irq", 1, 2055, 32.62, 565.522, 15365.44, 0),
            ("timerlat-thread", 1, 2055, 43.57, 617.732, 15418.89, 0),
        ],
    ),
    (
        "timerlat-top-6.1-screens.txt",
        &[
            ("timerlat-irq", 0, 3370, 21.0, 250.0, 11368.0, 0),
            ("timerlat-thread", 0, 3370, 39.0, 307.0, 20865.0, 0),
            ("timerlat-irq", 1, 3352, 23.0, 252.0, 12733.0, 0),
            ("timerlat-thread", 1, 3352, 41.0, 302.0, 16302.0, 0),
        ],
    ),
    (
        "timerlat-top-6.1-stopped.txt",
        &[("timerlat-irq", 1, 3, 69.0, 303.0, 765.0, 0), ("timerlat-thread", 1, 3, 84.0, 1297.0, 3683.0, 0)],
    ),
    (
        "timerlat-top-6.1.txt",
        &[
            ("timerlat-irq", 0, 3222, 8.0, 319.0, 18665.0, 0),
            ("timerlat-thread", 0, 3222, 24.0, 381.0, 23982.0, 0),
            ("timerlat-irq", 1, 3166, 6.0, 326.0, 18032.0, 0),
            ("timerlat-thread", 1, 3166, 21.0, 384.0, 23277.0, 0),
        ],
    ),
    // The analysis below the table states 75.12 us from idle on CPU 0, and 81.46 us where rtla stopped.
    (
        "timerlat-top-user.txt",
        &[
            ("timerlat-irq", 0, 599_979, 0.0, 0.0, 75.12, 0),
            ("timerlat-thread", 0, 599_979, 1.0, 4.0, 67.0, 0),
            ("timerlat-user", 0, 599_979, 1.0, 5.0, 69.0, 0),
            ("timerlat-irq", 3, 599_986, 0.0, 1.0, 72.0, 0),
            ("timerlat-thread", 3, 599_986, 1.0, 5.0, 81.46, 0),
        ],
    ),
    ("xenomai-2.4-latency.txt", &[("wakeup", 0, 60_000, 0.0, 1.99, 10.704, 0)]),
    ("xenomai-3-histogram.txt", &[("timerlat-irq", 0, 10_000, 0.084, 1.741, 12.69, 0)]),
    ("xenomai-3-latency.txt", &[("wakeup", 0, 24_000, 0.0, 1.956, 10.861, 0)]),
    ("xenomai-3-overrun.txt", &[("wakeup", 0, 5_000, 0.0, 1.93, 1203.517, 1)]),
];
