#!lua flags=allow-oom
-- discard: deletes the leftovers of a shard that has moved to another node. `meta` stays, because it names
-- that node.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout (any), then 1 a key (1 to 500): the part after {ns:shard}:
-- RETURNS  discarded <number of keys, without meta> | kept <layout> (the shard has not moved away: nothing is deleted)
-- COST     O(keys); Redis frees large keys in the background
--# include limits, arguments

arguments('discard', 1, 1)
local layout = redis.call('HGET', KEYS[1], 'layout')
if not layout then
  return redis.error_reply('DQUNINITIALISED ' .. KEYS[1] .. ' does not exist')
end
if not string.find(layout, '>', 1, true) then return 'kept ' .. layout end
local base, deleted = string.sub(KEYS[1], 1, -5), 0
for i = 2, #ARGV do
  if ARGV[i] ~= 'meta' then deleted = deleted + redis.call('UNLINK', base .. ARGV[i]) end
end
return 'discarded ' .. deleted
