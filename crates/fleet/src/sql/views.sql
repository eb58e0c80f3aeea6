-- SPDX-License-Identifier: MIT OR Apache-2.0
-- What every question stands on. Run in the store's folder.
--
-- Percentiles come from buckets that were added up, never from other percentiles; they are rounded up to a bucket's end, at
-- most 3 %. A bucket without an end holds samples that an imported file only counted: a percentile there is unknown. What is said of chance is guarded in one way: z, a distance in standard deviations, counts only where
-- exp(-z*z/2), which the chance of such a z stays below, times the number of things that were looked at is below 0.05.
-- A part of an earlier version lacks the last columns of bundles: there they are unknown.
CREATE TEMP VIEW bundles AS SELECT *, hardware || ', ' || kernel_class AS class FROM (
    SELECT NULL::VARCHAR AS accepted, NULL::VARCHAR AS grade WHERE false
    UNION ALL BY NAME SELECT * FROM read_parquet('part-*/bundles.parquet', union_by_name = true));
CREATE TEMP VIEW rows AS SELECT * FROM read_parquet('part-*/rows.parquet');
CREATE TEMP VIEW buckets AS SELECT * FROM read_parquet('part-*/buckets.parquet');
CREATE TEMP VIEW settings AS SELECT * FROM read_parquet('part-*/settings.parquet');
CREATE TEMP VIEW causes AS SELECT * FROM read_parquet('part-*/causes.parquet');
CREATE TEMP VIEW unread AS SELECT DISTINCT path, why FROM read_parquet('part-*/unread.parquet');

CREATE TEMP MACRO surely(z, tried) AS exp(-z * z / 2) * tried < 0.05;

-- The end of the bucket that begins at from_ns; unknown from where buckets have no end.
CREATE TEMP MACRO bucket_end(from_ns, to_ns, hidden_from_ns) AS CASE WHEN from_ns >= hidden_from_ns THEN NULL ELSE to_ns END;

-- least() passes over what is unknown.
CREATE TEMP MACRO at_most(ns, max_ns) AS CASE WHEN ns IS NULL THEN NULL ELSE least(ns, max_ns) END;

-- The largest of rows or cells; unknown where one with samples does not state its own.
CREATE TEMP MACRO largest(samples, max_ns) AS CASE WHEN bool_or(samples > 0 AND max_ns IS NULL) THEN NULL ELSE max(max_ns) END;

-- A cell is a probe under a load at a period, all measured CPUs together. Gaps are no cycles: they are not scored.
CREATE TEMP TABLE cells AS
WITH counted AS (
    SELECT bundle, cell, any_value(probe) AS probe, any_value(load) AS load, any_value(period_ns) AS period_ns,
           sum(samples)::BIGINT AS samples, sum(late)::BIGINT AS late, sum(missed)::BIGINT AS missed,
           largest(samples, max_ns) AS max_ns, min(limit_ns) AS limit_ns
    FROM rows WHERE cyclic = 1 AND samples + missed > 0 GROUP BY bundle, cell
), seen AS (
    SELECT bundle, cell, from_ns, to_ns,
           sum(count) OVER (PARTITION BY bundle, cell ORDER BY from_ns) AS seen,
           sum(count) OVER (PARTITION BY bundle, cell) AS samples
    FROM buckets
), percentiles AS (
    SELECT bundle, cell,
           bucket_end(min(from_ns) FILTER (seen >= ceil(0.5 * samples)), min(to_ns) FILTER (seen >= ceil(0.5 * samples)),
                min(from_ns) FILTER (to_ns IS NULL)) AS p50_ns,
           bucket_end(min(from_ns) FILTER (seen >= ceil(0.99 * samples)), min(to_ns) FILTER (seen >= ceil(0.99 * samples)),
                min(from_ns) FILTER (to_ns IS NULL)) AS p99_ns,
           bucket_end(min(from_ns) FILTER (seen >= ceil(0.999 * samples)), min(to_ns) FILTER (seen >= ceil(0.999 * samples)),
                min(from_ns) FILTER (to_ns IS NULL)) AS p99_9_ns
    FROM seen GROUP BY bundle, cell
)
SELECT counted.*, at_most(p50_ns, max_ns) AS p50_ns, at_most(p99_ns, max_ns) AS p99_ns, at_most(p99_9_ns, max_ns) AS p99_9_ns
FROM counted LEFT JOIN percentiles USING (bundle, cell);

-- Each machine's latest run: of those whose clock is believed, where there is one.
CREATE TEMP TABLE latest AS
SELECT * FROM bundles
QUALIFY row_number() OVER (PARTITION BY machine ORDER BY clock IS NULL DESC, started_unix_s DESC NULLS LAST, bundle) = 1;

-- How a run's cells compare with the same cells of its class: 1 is the class's median. At least four machines make one.
CREATE TEMP TABLE against AS
WITH medians AS (
    SELECT class, probe, load, period_ns, median(p99_9_ns) AS median_ns
    FROM cells JOIN latest USING (bundle) WHERE p99_9_ns IS NOT NULL
    GROUP BY class, probe, load, period_ns HAVING count(*) >= 4
)
SELECT cells.bundle, median(ln(greatest(p99_9_ns, 1) / greatest(median_ns, 1))) AS score,
       arg_max(cells.probe || ' under ' || cells.load, p99_9_ns / greatest(median_ns, 1)) AS worst_cell,
       max(p99_9_ns / greatest(median_ns, 1)) AS worst_ratio
FROM cells JOIN bundles USING (bundle)
JOIN medians ON medians.class = bundles.class AND medians.probe = cells.probe AND medians.load = cells.load
    AND medians.period_ns IS NOT DISTINCT FROM cells.period_ns
WHERE p99_9_ns IS NOT NULL
GROUP BY cells.bundle;

-- A machine by its latest run.
CREATE TEMP TABLE machine_figures AS
WITH merged AS (
    SELECT bundle, from_ns, to_ns, sum(count) AS count FROM buckets JOIN cells USING (bundle, cell)
    WHERE bundle IN (SELECT bundle FROM latest) GROUP BY bundle, from_ns, to_ns
), seen AS (
    SELECT bundle, from_ns, to_ns, sum(count) OVER (PARTITION BY bundle ORDER BY from_ns) AS seen,
           sum(count) OVER (PARTITION BY bundle) AS samples
    FROM merged
), percentiles AS (
    SELECT bundle,
           bucket_end(min(from_ns) FILTER (seen >= ceil(0.999 * samples)), min(to_ns) FILTER (seen >= ceil(0.999 * samples)),
                min(from_ns) FILTER (to_ns IS NULL)) AS p99_9_ns
    FROM seen GROUP BY bundle
), counted AS (
    SELECT bundle, sum(samples)::BIGINT AS samples, sum(late)::BIGINT AS late, sum(missed)::BIGINT AS missed,
           largest(samples, max_ns) AS max_ns, min(limit_ns) AS limit_ns
    FROM cells GROUP BY bundle
)
SELECT latest.*, counted.* EXCLUDE (bundle), at_most(p99_9_ns, max_ns) AS p99_9_ns, score, worst_cell, worst_ratio
FROM latest LEFT JOIN counted USING (bundle) LEFT JOIN percentiles USING (bundle) LEFT JOIN against USING (bundle);
