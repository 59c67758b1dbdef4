#!lua flags=allow-oom
-- meter: counts the calls of a caller in a window of fixed length, which begins with the first call.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, name, change (-1 | 1), window in ms (1 to 9007199254740)
-- RETURNS  the count of the window that is open; 0 if none is and nothing was to be counted
-- COST     O(1)
--# include now, registry, shard, limits, arguments

arguments('meter', 4)
local change = tonumber(one_of('the change', ARGV[3], { '-1', '1' }))
local window = number('the window in ms', ARGV[4], 1, 9007199254740)
local until_ms, counted = string.match(redis.call('HGET', base .. 'gateway', ARGV[2]) or '', '^(%d+) (%d+)$')
if not until_ms or tonumber(until_ms) <= now then until_ms, counted = now + window, 0 end
counted = math.max(counted + change, 0)
redis.call('HSET', base .. 'gateway', ARGV[2], string.format('%.0f %d', until_ms, counted))
return { counted }
