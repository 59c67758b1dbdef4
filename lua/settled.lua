#!lua flags=allow-oom
-- settled: forgets the answers to recorded writes, once their sources have noted the answers.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, then 1 a record (1 to 500): 16 hex digits
-- RETURNS  number of answers that were still kept
-- COST     O(1) a record, and a check of about ten answers: removes answers older than 30 days
--# include now, registry, shard, limits, arguments

arguments('settled', 1, 1)
local key = base .. 'carried'
local settled = redis.call('HDEL', key, unpack(ARGV, 2))
local page = redis.call('HSCAN', key, redis.call('HGET', KEYS[1], 'carried') or '0', 'COUNT', '10')
for i = 1, #page[2], 2 do
  local at = tonumber(string.match(page[2][i + 1], '^%d+'))
  if not at or at + CARRIED_FOR_MS <= now then redis.call('HDEL', key, page[2][i]) end
end
if page[1] == '0' then
  redis.call('HDEL', KEYS[1], 'carried')
else
  redis.call('HSET', KEYS[1], 'carried', page[1])
end
return { settled }
