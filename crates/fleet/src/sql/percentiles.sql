-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Percentiles of every cell of every run, from its buckets.
SELECT row_number() OVER (ORDER BY hostname, started_unix_s, path, cell) AS rank, hostname, started_at, probe, load, period_ns, samples, late,
       p50_ns, p99_ns, p99_9_ns, max_ns, path
FROM cells JOIN bundles USING (bundle) ORDER BY rank;
