-- The last ms of a time, which a sorted set's score keeps exactly; the longest span; maximum ids of a call; the default
-- lease, and the longest: a day; the default retention of history events: a week; the size from which a message counts
-- as large, because reading it whole costs more than an extra command; the retention of the answer to a recorded write
-- whose caller never returns: 30 days; how many gens are skipped where lost data may have handed some out.
local LAST_MS, LONGEST_SPAN_MS, MOST_IDS, LEASE_MS, LONGEST_LEASE_MS = 9007199254740991, 4503599627370496, 500, 30000, 86400000
local HISTORY_FOR_MS, LARGE_BYTES, CARRIED_FOR_MS, SKIPPED_GENS = 604800000, 4096, 2592000000, '2097152'
