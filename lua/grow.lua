#!lua flags=allow-oom
-- grow: makes a shard follow a growth of the deployment: creates an added shard, raises an existing shard. From then
-- on the shard refuses callers with an older layout. A repeat changes nothing.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout (of the grown deployment; followed by @ and the node's name if several Redises share the
--          deployment), shard number, shard counts since the deployment was created (separated by commas, the newest
--          last: as many as the layout)
-- RETURNS  created | raised | exists (already at this layout) | ahead <layout> <shard counts> (raised by a later
--          growth) | differs <layout> <shard> <shard counts>
-- COST     O(topics)
--# include now, limits, arguments, counts, topics

arguments('grow', 3)
local layout, shard, counts = ARGV[1], ARGV[2], ARGV[3]
local base = string.sub(KEYS[1], 1, -5)

local list = counts_of(counts)
if not list or #list < 2 or #list .. node_of(layout) ~= layout then
  refuse(counts .. ' are not the shard counts of layout ' .. layout)
end
local newest, before = list[#list], list[#list - 1]
number('the shard', shard, 0, newest - 1)

local known, own, had, shards = unpack(redis.call('HMGET', KEYS[1], 'layout', 'shard', 'counts', 'shards'))
if not known then
  -- A shard that the growth does not add existed before. A missing shard was lost: an empty shard in its place would
  -- hide the loss.
  if tonumber(shard) < before then
    return redis.error_reply('DQUNINITIALISED ' .. KEYS[1] .. ' does not exist')
  end
  redis.call('HSET', KEYS[1], 'layout', layout, 'format', 1, 'shard', shard, 'shards', newest, 'counts', counts,
    'epoch', 0, 'gen', 0, 'topics', 0)
  return 'created'
end
had = had or tostring(shards)
if string.find(known, '>', 1, true) then
  return redis.error_reply('DQLAYOUT ' .. known .. ' ' .. had .. ' - is the layout of ' .. KEYS[1] .. ', not ' .. layout)
end
local same = own == shard and node_of(known) == node_of(layout)

-- True if `longer` continues `shorter`.
local function continues(longer, shorter) return string.sub(longer, 1, #shorter + 1) == shorter .. ',' end

if same and had == counts then return 'exists' end
if same and continues(had, counts) then return 'ahead ' .. known .. ' ' .. had end
if not same or not continues(counts, had) then
  return 'differs ' .. known .. ' ' .. tostring(own) .. ' ' .. had
end

-- The shard's part of each topic's rate, which more shards now share.
local part = tonumber(string.match(had, '%d+$')) / newest
local shared, cursor = {}, '0'
local function share_rate(_, no)
  -- A page may repeat topics of another page.
  if shared[no] then return end
  shared[no] = true
  local rate = redis.pcall('HGET', base .. 't:' .. no, 'rate')
  rate = type(rate) == 'string' and tonumber(rate)
  if rate then redis.call('HSET', base .. 't:' .. no, 'rate', string.format('%.9f', math.max(rate * part, 1e-9))) end
end
repeat cursor = topics_page(cursor, 500, share_rate) until cursor == '0'
redis.call('HSET', KEYS[1], 'layout', layout, 'shards', newest, 'counts', counts)
-- Prompts listeners to call; the refusal tells them of the growth.
redis.call('SPUBLISH', base .. 'wake', string.format('%.0f', now))
redis.call('SPUBLISH', base .. 'ready', '')
return 'raised'
