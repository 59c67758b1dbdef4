-- reserve/undo: undoes the leases of a topic, for the general path to find the fault.
--
-- NEEDS    answer, at, base, bytes, bytes_before, call, fewer, leases, more, no, stats, taken
-- CHANGES  bytes

for i = 2, 2 * taken, 2 do redis.pcall('ZREM', base .. 'leases', leases[i]) end
if type(fewer) == 'number' then call('HINCRBY', stats, 'ready:' .. no, taken) end
if type(more) == 'number' then call('HINCRBY', stats, 'leased:' .. no, -taken) end
for i = at + 1, #answer do answer[i] = nil end
bytes = bytes_before
