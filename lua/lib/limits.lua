-- The last ms that a time may have, which a sorted set's score keeps exactly; the longest span; the most ids of a call; the
-- lease where nobody says how long, and the longest: a day; how long events of a history are kept: a week; from how many
-- bytes on a message is large: reading it whole costs more than a command of its own; how long the answer to a recorded write
-- whose caller never comes back is kept: 30 days.
local LAST_MS, LONGEST_SPAN_MS, MOST_IDS, LEASE_MS, LONGEST_LEASE_MS = 9007199254740991, 4503599627370496, 500, 30000, 86400000
local HISTORY_FOR_MS, LARGE_BYTES, CARRIED_FOR_MS = 604800000, 4096, 2592000000
