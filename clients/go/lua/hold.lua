#!lua flags=allow-oom
-- hold: keeps due messages of a shard delayed while the clock is not trusted, or resumes the shard.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, epoch of the owner, on | off
-- RETURNS  held | free | fenced <epoch>
-- COST     O(1)
--# include registry, shard, limits, arguments

arguments('hold', 3)
local mine, word = number('the epoch', ARGV[2], 0, LAST_MS), one_of('the word', ARGV[3], { 'on', 'off' })
if mine < epoch then return 'fenced ' .. epoch end
if word == 'on' then
  redis.call('HSET', KEYS[1], 'hold', 1)
  return 'held'
end
redis.call('HDEL', KEYS[1], 'hold')
return 'free'
