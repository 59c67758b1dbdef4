#!lua flags=allow-oom
-- move: changes a shard's recorded node, if several Redises share the deployment: after the number of the layout, `@a`
-- is the shard's node, `>b` the target of a move; nothing for a single Redis. From then on the shard refuses every call
-- for another node; a moved shard refuses all calls. A repeat changes nothing.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout (any), current text after the number, new text
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
-- Prompts listeners to call; the answer tells them the shard's node.
local base = string.sub(KEYS[1], 1, -5)
redis.call('SPUBLISH', base .. 'wake', string.format('%.0f', now))
redis.call('SPUBLISH', base .. 'ready', '')
return place == ARGV[3] and 'exists' or 'moved'
