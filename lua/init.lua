#!lua
-- init: creates a shard, unless an equal shard exists.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout (followed by @ and the node's name if several Redises share the deployment), shard number, shard
--          counts of the deployment (separated by commas, the newest last: more than one after a growth)
-- RETURNS  created | exists | differs <layout> <shard> <shard counts>
-- COST     O(1)
--# include limits, arguments, counts

arguments('init', 3)
number('the layout', string.match(ARGV[1], '^[^@]*'), 1, 4096)
number('the shard', ARGV[2], 0, 4095)
node_of(ARGV[1])
if not counts_of(ARGV[3]) then refuse('the shard counts must rise from 1 to at most 4096, separated by commas, not ' .. ARGV[3]) end
local layout, shard, shards, counts = unpack(redis.call('HMGET', KEYS[1], 'layout', 'shard', 'shards', 'counts'))
if not layout then
  redis.call('HSET', KEYS[1], 'layout', ARGV[1], 'format', 1, 'shard', ARGV[2], 'shards',
    string.match(ARGV[3], '%d+$'), 'counts', ARGV[3], 'epoch', 0, 'gen', 0, 'topics', 0)
  return 'created'
end
counts = counts or tostring(shards)
if layout == ARGV[1] and shard == ARGV[2] and counts == ARGV[3] then return 'exists' end
return 'differs ' .. layout .. ' ' .. tostring(shard) .. ' ' .. counts
