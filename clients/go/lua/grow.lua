#!lua flags=allow-oom
-- grow: lets a shard follow a growth of the deployment: creates one that the growth adds, raises one that was there
-- before. From then on it serves nobody who does not know the growth. Repeating it changes nothing.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout (of the deployment once it has grown; with @ and the node's name behind it where several Redises keep
--          the deployment), shard number, shard counts since the deployment was created (parted by commas, the newest
--          last: as many as the layout says)
-- RETURNS  created | raised | exists (it has this layout already) | ahead <layout> <shard counts> (a later growth
--          has raised it) | differs <layout> <shard> <shard counts>
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
  -- A shard that the growth does not add was there before. One that is missing was lost: an empty one in its place
  -- would hide that.
  if tonumber(shard) < before then
    return redis.error_reply('DQUNINITIALISED ' .. KEYS[1] .. ' does not exist')
  end
  redis.call('HSET', KEYS[1], 'layout', layout, 'format', 1, 'shard', shard, 'shards', newest, 'counts', counts,
    'epoch', 0, 'gen', 0, 'topics', 0)
  return 'created'
end
had = had or tostring(shards)
if string.find(known, '>', 1, true) then
  return redis.error_reply('DQLAYOUT ' .. known .. ' ' .. had .. ' is the layout of ' .. KEYS[1] .. ', not ' .. layout)
end
local same = own == shard and node_of(known) == node_of(layout)

-- Whether `longer` goes on where `shorter` ends.
local function continues(longer, shorter) return string.sub(longer, 1, #shorter + 1) == shorter .. ',' end

if same and had == counts then return 'exists' end
if same and continues(had, counts) then return 'ahead ' .. known .. ' ' .. had end
if not same or not continues(counts, had) then
  return 'differs ' .. known .. ' ' .. tostring(own) .. ' ' .. had
end

-- The shard's part of each topic's rate, which more shards share now.
local part = tonumber(string.match(had, '%d+$')) / newest
local shared, cursor = {}, '0'
local function share_rate(_, no)
  -- A page may have what another had.
  if shared[no] then return end
  shared[no] = true
  local rate = redis.pcall('HGET', base .. 't:' .. no, 'rate')
  rate = type(rate) == 'string' and tonumber(rate)
  if rate then redis.call('HSET', base .. 't:' .. no, 'rate', string.format('%.9f', math.max(rate * part, 1e-9))) end
end
repeat cursor = topics_page(cursor, 500, share_rate) until cursor == '0'
redis.call('HSET', KEYS[1], 'layout', layout, 'shards', newest, 'counts', counts)
-- A listener makes a call now, is refused, and so learns of the growth.
redis.call('SPUBLISH', base .. 'wake', string.format('%.0f', now))
redis.call('SPUBLISH', base .. 'ready', '')
return 'raised'
