-- SPDX-License-Identifier: MIT OR Apache-2.0
-- All machines by their latest run, the best first: by verdict, then by the rate of late cycles, then by p99.9 against their class.
SELECT row_number() OVER (ORDER BY CASE outcome WHEN 'held' THEN 0 WHEN 'unproven' THEN 1 ELSE 2 END,
                          coalesce(late / samples, 0), coalesce(score, 0), p99_9_ns, hostname, machine) AS rank,
       hostname, class, outcome, (SELECT count(*) FROM bundles WHERE bundles.machine = machine_figures.machine) AS runs,
       started_at, set_apart = 1 AS set_apart, coalesce(samples, 0) AS samples, coalesce(late, 0) AS late,
       p99_9_ns, max_ns, limit_ns, exp(score) AS against_class, reason, path
FROM machine_figures ORDER BY rank;
