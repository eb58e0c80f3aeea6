-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Machines that got later or earlier from run to run, against their class as it is now: Mann and Kendall's test of a trend,
-- over the runs whose clock is believed. What a few runs show may be chance: it takes eight runs or so, more of many machines.
WITH runs AS (
    SELECT machine, hostname, class, started_unix_s, started_at, kernel, score,
           row_number() OVER (PARTITION BY machine ORDER BY started_unix_s, bundle) AS nth,
           count(*) OVER (PARTITION BY machine) AS runs
    FROM bundles JOIN against USING (bundle) WHERE clock IS NULL
), trends AS (
    SELECT earlier.machine, any_value(earlier.runs) AS runs, sum(sign(later.score - earlier.score)) AS s
    FROM runs AS earlier JOIN runs AS later ON later.machine = earlier.machine AND later.nth > earlier.nth
    WHERE earlier.runs >= 4 GROUP BY earlier.machine
), judged AS (
    SELECT machine, runs, (s - sign(s)) / sqrt(runs * (runs - 1) * (2 * runs + 5) / 18) AS z, count(*) OVER () AS tried FROM trends
), ends AS (
    SELECT machine, any_value(hostname) AS hostname, any_value(class) AS class, min(started_at) AS first_at,
           max(started_at) AS last_at, count(DISTINCT kernel) AS kernels,
           median(score) FILTER (nth <= runs / 2) AS early, median(score) FILTER (nth > runs / 2) AS late
    FROM runs GROUP BY machine
)
SELECT row_number() OVER (ORDER BY abs(z) DESC, hostname, machine) AS rank, hostname, class, judged.runs, first_at, last_at,
       kernels, exp(late - early) AS times, z
FROM judged JOIN ends USING (machine) WHERE surely(z, tried) AND abs(late - early) > ln(1.1) ORDER BY rank;
