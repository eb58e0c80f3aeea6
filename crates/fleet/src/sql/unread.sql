-- SPDX-License-Identifier: MIT OR Apache-2.0
-- What was given to the store and could not be read: bundles of other versions, damaged ones.
SELECT row_number() OVER (ORDER BY path, why) AS rank, path, why FROM unread ORDER BY rank;
