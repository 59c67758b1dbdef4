-- reserve/lease: adds the leases of the taken messages, and counts the messages. Both come before the heads: a lease of a
-- message that was not handed out ends by itself, and a topic that counts a leased message is not forgotten.
--
-- NEEDS    base, call, last_gen, lease, leases, many, nearest, no, taken, until_ms, until_text, LEASE_MS
-- CHANGES  nearest

-- As in `note_lease`.
if lease > LEASE_MS and lease > (tonumber(call('HGET', KEYS[1], 'longest_lease')) or LEASE_MS) then
  call('HSET', KEYS[1], 'longest_lease', lease)
end
if call('ZADD', base .. 'alarms', 'LT', 'CH', until_text, 'leases') == 1 then nearest = until_ms end
call('ZADD', base .. 'leases', unpack(leases))
local more = call('HINCRBY', base .. 'stats', 'leased:' .. no, taken == 1 and '1' or taken)
call('HINCRBY', base .. 'stats', 'ready:' .. no, taken == 1 and '-1' or -taken)
-- With more than a few messages, sometimes does the work of `tables.lua`: a drained topic has no other occasion.
if more > 8 and last_gen % 126 < 2 * many then
  local long = string.rep('-', 65)
  redis.pcall('ZADD', base .. 'leases', until_text, long)
  redis.pcall('ZREM', base .. 'leases', long)
end
