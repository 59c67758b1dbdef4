-- put/undo: undoes all additions of plain messages: the general path tells each message its own fault.
--
-- NEEDS    accepted, answers, at, base, buckets, call, counted, entries, joined, no, now_us, queued
-- CHANGES  answers, at

for name, members in pairs(buckets) do
  for i = 2, #members, 2 do redis.pcall('ZREM', base .. name, members[i]) end
end
for i = 1, joined and #joined or 0, 3 do redis.pcall('ZREM', joined[i], joined[i + 2]) end
if type(counted) == 'number' then call('HINCRBY', base .. 'stats', 'accepted:' .. no, -accepted) end
if type(queued) == 'number' then call('HINCRBY', base .. 'stats', 'ready:' .. no, -#entries) end
at, answers = 3, { now_us }
