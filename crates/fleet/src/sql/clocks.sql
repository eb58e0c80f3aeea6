-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Runs whose times are not believed: they are ranked, but stand in no order of time.
SELECT row_number() OVER (ORDER BY hostname, path) AS rank, hostname, path, started_at, clock AS why
FROM bundles WHERE clock IS NOT NULL ORDER BY rank;
