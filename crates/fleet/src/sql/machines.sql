-- SPDX-License-Identifier: MIT OR Apache-2.0
-- All machines by their latest run, the best first: by verdict, then by the rate of late cycles, then by p99.9 against their class.
-- A missed period is a late cycle without a sample, so the rate is of samples and missed periods together.
SELECT row_number() OVER (ORDER BY CASE outcome WHEN 'held' THEN 0 WHEN 'unproven' THEN 1 ELSE 2 END,
                          coalesce(late / (samples + missed), 0), coalesce(score, 0), p99_9_ns, hostname, machine) AS rank,
       hostname, class, outcome, (SELECT count(*) FROM bundles WHERE bundles.machine = machine_figures.machine) AS runs,
       started_at, set_apart = 1 AS set_apart, coalesce(samples, 0) AS samples, coalesce(late, 0) AS late,
       coalesce(missed, 0) AS missed, p99_9_ns, max_ns, limit_ns, exp(score) AS against_class, reason, accepted, grade, path
FROM machine_figures ORDER BY rank;
