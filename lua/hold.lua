#!lua flags=allow-oom
-- hold: stops a shard from letting anything become ready (its clock cannot be trusted), or lets it go on.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, epoch of the owner, on | off
-- RETURNS  held | free | fenced <epoch>
-- COST     O(1)
--# include shard, arguments

arguments('hold', 3)
if tonumber(ARGV[2]) < epoch then return 'fenced ' .. epoch end
if ARGV[3] == 'on' then
  redis.call('HSET', KEYS[1], 'hold', 1)
  return 'held'
end
redis.call('HDEL', KEYS[1], 'hold')
return 'free'
