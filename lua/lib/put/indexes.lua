-- put/indexes: adds the plain messages to their indexes, and counts them. Stops at the first failure: the groups come first,
-- since the general path repeats their entries unchanged.
--
-- NEEDS    accepted, base, buckets, entries, joined, nearest, no
-- CHANGES  nearest
-- GIVES    counted, failed, length

local failed, length = false, nil
for i = 1, joined and #joined or 0, 3 do
  failed = failed or type(redis.pcall('ZADD', joined[i], joined[i + 1], joined[i + 2])) == 'table'
end
for name, members in pairs(buckets) do
  local nearer = failed or redis.call('ZADD', base .. 'alarms', 'LT', 'CH', members.score, name)
  if nearer == 1 and (not nearest or members.first < nearest) then nearest = members.first end
  failed = failed or type(redis.pcall('ZADD', base .. name, unpack(members))) == 'table'
end
if entries and not failed then
  length = redis.pcall('RPUSH', base .. 'r:' .. no, unpack(entries))
  failed = type(length) == 'table'
  if not failed then redis.pcall('HINCRBY', base .. 'stats', 'ready:' .. no, #entries) end
end
local counted = not failed and tonumber(redis.pcall('HINCRBY', base .. 'stats', 'accepted:' .. no, accepted == 1 and '1' or accepted))
