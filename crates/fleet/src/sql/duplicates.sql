-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Names that more than one machine may have: other hardware under the same name, or two runs at the same time.
WITH hardware AS (
    SELECT hostname, count(DISTINCT machine) AS machines, string_agg(DISTINCT hardware, '; ' ORDER BY hardware) AS hardware
    FROM bundles GROUP BY hostname HAVING count(DISTINCT machine) > 1
), beside AS (
    SELECT hostname, started_unix_s < max(ended_unix_s) OVER (
               PARTITION BY machine ORDER BY started_unix_s, bundle ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
           ) AS beside
    FROM bundles WHERE clock IS NULL
), found AS (
    SELECT hostname, machines || ' machines of other hardware: ' || hardware AS why FROM hardware
    UNION ALL
    SELECT hostname, count(*) || ' runs began while another went on: two machines, or one clock that is wrong'
    FROM beside WHERE beside GROUP BY hostname
)
SELECT row_number() OVER (ORDER BY hostname, why) AS rank, hostname, why FROM found ORDER BY rank;
