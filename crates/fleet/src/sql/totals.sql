-- SPDX-License-Identifier: MIT OR Apache-2.0
-- How much there is.
SELECT 1 AS rank, (SELECT count(*) FROM bundles) AS bundles, (SELECT count(*) FROM latest) AS machines,
       (SELECT count(*) FROM rows) AS rows, (SELECT coalesce(sum(samples), 0)::BIGINT FROM rows) AS samples,
       (SELECT count(DISTINCT class) FROM latest) AS classes;
