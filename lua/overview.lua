#!lua flags=no-writes
-- overview: what a shard says of itself.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout
-- RETURNS  now_us, next due ms ("" for none), epoch, owner, held (1 or ""), leases, markers, topic, …
-- COST     O(topics)
--# include now, shard, arguments

arguments('overview', 1)
local owner = redis.call('HGET', KEYS[1], 'owner')
local head = redis.call('ZRANGE', base .. 'alarms', 0, 0, 'WITHSCORES')[2] or ''
local answer = { now_us, head, epoch, owner or '', held or '', redis.call('ZCARD', base .. 'leases'),
  redis.call('ZCARD', base .. 'markers') }
for i = 1, tonumber(redis.call('HGET', KEYS[1], 'topics')) or 0 do
  answer[#answer + 1] = redis.call('HGET', base .. 't:' .. i, 'name') or ''
end
return answer
