-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Machines that are later than others of their class: more than a tenth above the class's median, and further from it than
-- chance takes the worst of so many. The spread is the median absolute deviation, which outliers do not widen, and at
-- least a bucket's width. Classes of eight machines or more.
WITH centred AS (
    SELECT *, score - median(score) OVER (PARTITION BY class) AS beyond, count(*) OVER (PARTITION BY class) AS machines
    FROM machine_figures WHERE score IS NOT NULL
), spread AS (
    SELECT *, beyond / greatest(1.4826 * median(abs(beyond)) OVER (PARTITION BY class), 0.03) AS z,
           count(*) OVER () AS tried
    FROM centred WHERE machines >= 8
)
SELECT row_number() OVER (ORDER BY z DESC, hostname, machine) AS rank, hostname, class, machines, outcome,
       exp(beyond) AS times_the_median, z, worst_cell, worst_ratio, p99_9_ns, max_ns, path
FROM spread WHERE z > 0 AND exp(beyond) > 1.1 AND surely(z, tried) ORDER BY rank;
