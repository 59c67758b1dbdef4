#!lua flags=allow-oom
-- move: changes what a shard records of its node, where several Redises keep the deployment: `@a` behind the number of the
-- layout is the node that has the shard, `>b` where it has moved to; nothing, where one Redis keeps it. From then on it
-- refuses every call that is not for the recorded node; what has moved refuses all. Repeating it changes nothing.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout (any), what is recorded behind the number, what is to be
-- RETURNS  moved | exists | differs <layout>
-- COST     O(1)
--# include now, limits, arguments, counts

arguments('move', 3)
local layout = redis.call('HGET', KEYS[1], 'layout')
if not layout then
  return redis.error_reply('DQUNINITIALISED ' .. KEYS[1] .. ' does not exist')
end
node_of('@' .. (string.match(ARGV[3], '^@(.*)$') or string.match(ARGV[3], '^>([%w_-]+):?%d*$') or ''))
local version, place = string.match(layout, '^(%d+)(.*)$')
if place ~= ARGV[2] and place ~= ARGV[3] then return 'differs ' .. layout end
if place ~= ARGV[3] then redis.call('HSET', KEYS[1], 'layout', version .. ARGV[3]) end
-- A listener makes a call now, and so learns where the shard is.
local base = string.sub(KEYS[1], 1, -5)
redis.call('SPUBLISH', base .. 'wake', string.format('%.0f', now))
redis.call('SPUBLISH', base .. 'ready', '')
return place == ARGV[3] and 'exists' or 'moved'
