-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Which difference of configuration goes with failure: machines that have a setting against those of the same class that have
-- it not, all classes added up (Mantel and Haenszel's test), so that a class with another default does not count for
-- it. Five machines or more on either side. Settings that the same machines have stand together: nothing tells them apart.
-- What goes together need not be the reason.
WITH machines AS (
    SELECT bundle, class, (outcome = 'exceeded')::INT AS bad, hash(machine) AS tag FROM latest WHERE outcome IN ('held', 'exceeded', 'unproven')
), classes AS (
    SELECT class, count(*) AS n, sum(bad) AS bad FROM machines GROUP BY class HAVING count(*) > 1
), split AS (
    SELECT name, value, class, count(*) AS with_n, sum(bad) AS with_bad, bit_xor(tag) AS tag
    FROM settings JOIN machines USING (bundle) GROUP BY name, value, class
), strata AS (
    SELECT name, value, tag, with_n, with_bad, n - with_n AS without_n, bad - with_bad AS without_bad,
           with_n * bad / n AS expected,
           with_n * (n - with_n) * bad * (n - bad) / (n * n * (n - 1)) AS variance
    FROM split JOIN classes USING (class)
), summed AS (
    SELECT name, value, bit_xor(tag) AS tag, sum(with_n) AS with_machines, sum(with_bad) AS with_failed,
           sum(without_n) AS without_machines, sum(without_bad) AS without_failed,
           (sum(with_bad) - sum(expected)) / sqrt(nullif(sum(variance), 0)) AS z
    FROM strata WHERE without_n > 0 GROUP BY name, value
), grouped AS (
    SELECT list(name || ' = ' || value ORDER BY name) AS settings, any_value(COLUMNS(* EXCLUDE (name, value, tag)))
    FROM summed WHERE with_machines >= 5 AND without_machines >= 5 AND z IS NOT NULL GROUP BY tag, with_machines
), judged AS (
    SELECT *, count(*) OVER () AS tried FROM grouped
)
SELECT row_number() OVER (ORDER BY z DESC, settings) AS rank, settings, with_machines::BIGINT AS with_machines,
       with_failed::BIGINT AS with_failed, without_machines::BIGINT AS without_machines,
       without_failed::BIGINT AS without_failed, z, tried
FROM judged WHERE z > 0 AND surely(z, tried) ORDER BY rank;
