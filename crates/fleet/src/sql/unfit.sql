-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Classes that are unfit: of their machines whose measured CPUs are isolated, most exceed their limit all the same. Most:
-- the lower 95 % bound of their share (Wilson's score) is above one half. Five machines or more.
WITH counted AS (
    SELECT class, count(*) FILTER (set_apart = 1) AS set_apart,
           count(*) FILTER (set_apart = 1 AND outcome = 'exceeded') AS failed,
           count(*) FILTER (set_apart = 0) AS not_set_apart,
           count(*) FILTER (set_apart = 0 AND outcome = 'exceeded') AS not_set_apart_failed,
           min(p99_9_ns) FILTER (set_apart = 1) AS best_p99_9_ns, min(max_ns) FILTER (set_apart = 1) AS best_max_ns,
           min(limit_ns) AS limit_ns
    FROM machine_figures GROUP BY class
), bounded AS (
    SELECT *, (failed / set_apart + 1.3528 / set_apart - 1.6449 * sqrt(failed / set_apart * (1 - failed / set_apart) / set_apart
              + 0.6764 / set_apart / set_apart)) / (1 + 2.7055 / set_apart) AS failed_share_at_least
    FROM counted WHERE set_apart >= 5
), told AS (
    SELECT class, kind || ' ' || name AS cause, sum(causes.sum_ns) AS sum_ns
    FROM causes JOIN latest USING (bundle) WHERE set_apart = 1 GROUP BY ALL
), worst_cause AS (
    SELECT class, arg_max(cause, sum_ns) AS cause, max(sum_ns) / sum(sum_ns) AS cause_share FROM told GROUP BY class
)
SELECT row_number() OVER (ORDER BY failed_share_at_least DESC, class) AS rank, bounded.*, cause, cause_share
FROM bounded LEFT JOIN worst_cause USING (class) WHERE failed_share_at_least > 0.5 ORDER BY rank;
