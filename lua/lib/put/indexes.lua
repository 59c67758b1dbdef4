-- put/indexes: counts the plain messages and adds them to their indexes. Stops at the first failure, usually a key of
-- the wrong type.
--
-- NEEDS    accepted, base, buckets, entries, joined, nearest, no
-- CHANGES  nearest
-- GIVES    counted, failed, length, queued

local counted, queued, length = redis.pcall('HINCRBY', base .. 'stats', 'accepted:' .. no, accepted == 1 and '1' or accepted)
local failed = type(counted) == 'table'
for name, members in pairs(buckets) do
  local nearer = failed or redis.pcall('ZADD', base .. 'alarms', 'LT', 'CH', members.score, name)
  if nearer == 1 and (not nearest or members.first < nearest) then nearest = members.first end
  failed = failed or type(nearer) == 'table' or type(redis.pcall('ZADD', base .. name, unpack(members))) == 'table'
end
for i = 1, joined and #joined or 0, 3 do
  failed = failed or type(redis.pcall('ZADD', joined[i], joined[i + 1], joined[i + 2])) == 'table'
end
if entries and not failed then
  queued = redis.pcall('HINCRBY', base .. 'stats', 'ready:' .. no, #entries)
  length = type(queued) == 'number' and redis.pcall('RPUSH', base .. 'r:' .. no, unpack(entries))
  failed = type(length) ~= 'number'
end
