-- reserve/lease: counts the taken messages and adds their leases. Stops at the first failure, usually a key of the
-- wrong type.
--
-- NEEDS    base, call, last_gen, lease, leases, many, nearest, no, taken, until_ms, until_text, LEASE_MS
-- CHANGES  nearest
-- GIVES    failed, fewer, more, stats

local stats = base .. 'stats'
local fewer = redis.pcall('HINCRBY', stats, 'ready:' .. no, taken == 1 and '-1' or -taken)
local more = redis.pcall('HINCRBY', stats, 'leased:' .. no, taken == 1 and '1' or taken)
local failed = type(fewer) == 'table' or type(more) == 'table'
if not failed then
  -- As in `note_lease`.
  if lease > LEASE_MS and lease > (tonumber(call('HGET', KEYS[1], 'longest_lease')) or LEASE_MS) then
    call('HSET', KEYS[1], 'longest_lease', lease)
  end
  local nearer = redis.pcall('ZADD', base .. 'alarms', 'LT', 'CH', until_text, 'leases')
  if nearer == 1 then nearest = until_ms end
  -- With more than a few messages, sometimes does the work of `tables.lua`: a drained topic has no other
  -- occasion.
  local long = more > 8 and last_gen % 126 < 2 * many and string.rep('-', 65)
  if long then redis.pcall('ZADD', base .. 'leases', until_text, long) end
  failed = type(nearer) == 'table' or type(redis.pcall('ZADD', base .. 'leases', unpack(leases))) == 'table'
  if long then redis.pcall('ZREM', base .. 'leases', long) end
end
