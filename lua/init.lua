#!lua
-- init: creates a shard, or finds it created alike.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, shard number, number of shards
-- RETURNS  created | exists | differs <layout> <shard> <shards>
-- COST     O(1)

local layout, shard, shards = unpack(redis.call('HMGET', KEYS[1], 'layout', 'shard', 'shards'))
if not layout then
  redis.call('HSET', KEYS[1], 'layout', ARGV[1], 'format', 1, 'shard', ARGV[2], 'shards', ARGV[3], 'epoch', 0,
    'gen', 0, 'topics', 0)
  return 'created'
end
if layout == ARGV[1] and shard == ARGV[2] and shards == ARGV[3] then return 'exists' end
return 'differs ' .. layout .. ' ' .. tostring(shard) .. ' ' .. tostring(shards)
