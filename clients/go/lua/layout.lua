#!lua flags=no-writes
-- layout: a shard's record of the deployment. Answers callers with any layout.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout (any)
-- RETURNS  layout, shard number, shard counts since the deployment was created, separated by commas, the newest last,
--          number of messages (of about 100 topics, dead letters included), identity of the deployment ("" for none);
--          nothing if the shard does not exist
-- COST     O(1) a topic
--# include limits, arguments, topics

arguments('layout', 1)
local layout, shard, counts, shards, identity =
  unpack(redis.call('HMGET', KEYS[1], 'layout', 'shard', 'counts', 'shards', 'identity'))
if not layout then return {} end
local stats, holds = string.sub(KEYS[1], 1, -5) .. 'stats', 0
topics_page('0', 100, function(_, no)
  local n = redis.pcall('HMGET', stats, 'accepted:' .. no, 'delivered:' .. no, 'cancelled:' .. no, 'expired:' .. no,
    'purged:' .. no, 'replaced:' .. no)
  if n.err then return end
  holds = holds + (tonumber(n[1]) or 0)
  for i = 2, 6 do holds = holds - (tonumber(n[i]) or 0) end
end)
return { layout, shard, counts or shards, math.max(holds, 0), identity or '' }
