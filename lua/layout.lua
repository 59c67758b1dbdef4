#!lua flags=no-writes
-- layout: what a shard knows of the deployment. It answers every caller, whatever layout that knows.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout (any)
-- RETURNS  layout, shard number, shard counts since the deployment was created, parted by commas, the newest last,
--          messages that the shard holds (of its first 100 topics; dead ones too); nothing where it does not exist
-- COST     O(topics)
--# include arguments

arguments('layout', 1)
local layout, shard, counts, shards, topics =
  unpack(redis.call('HMGET', KEYS[1], 'layout', 'shard', 'counts', 'shards', 'topics'))
if not layout then return {} end
local stats, holds = string.sub(KEYS[1], 1, -5) .. 'stats', 0
for no = 1, math.min(tonumber(topics) or 0, 100) do
  local n = redis.pcall('HMGET', stats, 'accepted:' .. no, 'delivered:' .. no, 'cancelled:' .. no, 'expired:' .. no,
    'purged:' .. no, 'replaced:' .. no)
  if n.err then break end
  holds = holds + (tonumber(n[1]) or 0)
  for i = 2, 6 do holds = holds - (tonumber(n[i]) or 0) end
end
return { layout, shard, counts or shards, math.max(holds, 0) }
