#!lua flags=allow-oom
-- purge: throws messages of one topic away, in steps.
--
-- MOVES    DELAYED (due in the range) | READY (all, oldest first) | DEAD (died in the range) -> purged
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, delayed | ready | dead, from ms, to ms (both inclusive; without meaning for ready),
--          limit (1 to 500)
-- RETURNS  more | done, purged, from ms for the next step. A step that finds nothing more is the last; an
--          interrupted purge is simply called again
-- COST     O(log n) a message
--# include now, shard, arguments, topic, alarm, envelope, bucket, finish, look

arguments('purge', 6)
local no, state = topic_no(ARGV[2]), one_of('the state', ARGV[3], { 'delayed', 'ready', 'dead' })
local from, to = number('from', ARGV[4], 0, LAST_MS), number('to', ARGV[5], 0, LAST_MS)
local limit = number('the limit', ARGV[6], 1, MOST_IDS)
if not no then return { 'done', 0, ARGV[4] } end
must_be('hash', 'stats')
must_be('zset', 'markers')
local purged, kept = 0, 0

-- Throws one message away, unless its entry is stale.
local function purge_one(member, wanted)
  local m, why = read(no, string.sub(member, 1, -5))
  if why == 'newer' then error('newer') end
  if not m or m.state ~= wanted or gen_bytes(m.gen) ~= string.sub(member, -4) then return end
  if wanted == PENDING then bucket_check(m.no, m.due) end
  finish(m, 'purged')
  if wanted == PENDING then unplace(m) end
  purged = purged + 1
end

-- Whether the entry has to go; what cannot be thrown away is kept.
local function purge(member, wanted)
  if pcall(purge_one, member, wanted) then return true end
  kept = kept + 1
  return false
end

local more
if state == 'delayed' then
  local members, bucket, go_on = bucket_page(no, from, to, limit)
  for _, member in ipairs(members) do
    if purge(member, PENDING) then redis.call('ZREM', base .. bucket, member) end
  end
  -- What is kept would be met again and again: the next step begins behind it.
  if kept > 0 then go_on = tonumber(redis.call('ZSCORE', base .. bucket, members[#members]) or from) end
  more = bucket ~= nil or go_on ~= nil
  if go_on then from = math.max(go_on, from + 1) end
elseif state == 'ready' then
  must_be('list', 'r:' .. no)
  local entries = redis.call('LRANGE', base .. 'r:' .. no, 0, limit - 1)
  local back = {}
  for _, entry in ipairs(entries) do
    if not purge(string.sub(entry, 1, -8), PENDING) then back[#back + 1] = entry end
  end
  if #entries > 0 then redis.call('LTRIM', base .. 'r:' .. no, #entries, '-1') end
  if #back > 0 then redis.call('RPUSH', base .. 'r:' .. no, unpack(back)) end
  more = #entries == limit and #back < limit
else
  must_be('zset', 'd:' .. no)
  local members = redis.call('ZRANGEBYSCORE', base .. 'd:' .. no, from, to, 'LIMIT', 0, limit)
  for _, member in ipairs(members) do
    if purge(member, DEAD) then redis.call('ZREM', base .. 'd:' .. no, member) end
  end
  more = #members == limit
  if kept > 0 then
    from = math.max(tonumber(redis.call('ZSCORE', base .. 'd:' .. no, members[#members]) or from), from + 1)
  end
end
wake_timer()
return { more and 'more' or 'done', purged, string.format('%.0f', from) }
