-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Machines of the same hardware and kernel class together, the class with the most failures first.
SELECT row_number() OVER (ORDER BY count(*) FILTER (outcome = 'exceeded') / count(*) DESC, count(*) DESC, class) AS rank,
       class, count(*) AS machines, count(*) FILTER (outcome = 'held') AS held,
       count(*) FILTER (outcome = 'unproven') AS unproven, count(*) FILTER (outcome = 'exceeded') AS exceeded,
       count(*) FILTER (set_apart = 1) AS set_apart,
       min(p99_9_ns) AS best_p99_9_ns, quantile_disc(p99_9_ns, 0.5) AS median_p99_9_ns, max(p99_9_ns) AS worst_p99_9_ns,
       arg_min(hostname, p99_9_ns) AS best, arg_max(hostname, p99_9_ns) AS worst
FROM machine_figures GROUP BY class ORDER BY rank;
