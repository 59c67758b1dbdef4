#!lua flags=allow-oom
-- purge: deletes messages of one topic, in steps.
--
-- MOVES    DELAYED (due in the range) | READY (all, oldest first) | DEAD (died in the range) -> purged
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, delayed | ready | dead, from ms, to ms (both inclusive; ignored for ready), end of the last
--          step ("" at first), limit (1 to 500)
-- RETURNS  more | done, purged, kept (a later format, or a key of the wrong type), from ms and end of this step, for
--          the next step. An interrupted purge can simply be repeated
-- COST     O(log n) a message
--# include now, registry, shard, limits, arguments, topic, defaults, policy, stats, nearest, alarm, format, fields, envelope, hour, bucket, note, ends, turn, finish, look, page, parked

arguments('purge', 7)
local no, state = topic_no(ARGV[2]), one_of('the state', ARGV[3], { 'delayed', 'ready', 'dead' })
local from, to = number('from', ARGV[4], 0, LAST_MS), number('to', ARGV[5], 0, LAST_MS)
local last, limit = ARGV[6], number('the limit', ARGV[7], 1, MOST_IDS)
if not no then return { 'done', 0, 0, ARGV[4], '' } end
local purged, kept = 0, 0
local word, next_from, ended_at = 'done', ARGV[4], ''

-- Deletes one message, unless its entry is stale.
local function purge_one(member, wanted)
  local m, why = read(no, string.sub(member, 1, -5))
  if why == 'newer' then error('newer') end
  if not m or m.state ~= wanted or gen_bytes(m.gen) ~= string.sub(member, -4) then return end
  finish(m, 'purged')
  if wanted == PENDING then unplace(m) end
  purged = purged + 1
end

-- True if the entry has to go; undeletable messages are kept.
local function purge(member, wanted)
  if pcall(purge_one, member, wanted) then return true end
  kept = kept + 1
  return false
end

-- Deletes a page of an index. Returns true if there may be more.
local function purge_page(index, wanted)
  local page = page_behind(base .. index, ARGV[4], last, limit)
  for i = 1, #page, 2 do
    if tonumber(page[i + 1]) > to then return false end
    if purge(page[i], wanted) then redis.call('ZREM', base .. index, page[i]) end
  end
  if #page < 2 * limit then return false end
  word, next_from, ended_at = 'more', page[#page], page[#page - 1]
  return true
end

if state == 'delayed' then
  local _, bucket, go_on = bucket_page(no, from, to, 1)
  if bucket and not purge_page(bucket, PENDING) then go_on = (string.match(bucket, ':(%d+)$') + 1) * HOUR_MS end
  if go_on and go_on <= to then word, next_from = 'more', string.format('%.0f', go_on) end
elseif state == 'ready' then
  local key, place, since, group = queue_at(no, last)
  local queue = base .. key
  -- The initial number of entries: kept entries move to the end, and are not visited again.
  local left = place == '' and redis.call('LLEN', queue) or number('where the last step ended', place, 1, LAST_MS)
  local entries, back = left > 0 and redis.call('LRANGE', queue, 0, math.min(limit, left) - 1) or {}, {}
  for _, entry in ipairs(entries) do
    if not purge(string.sub(entry, 1, -8), PENDING) then back[#back + 1] = entry end
  end
  if #back > 0 then redis.call('RPUSH', queue, unpack(back)) end
  if #entries > 0 then redis.call('LTRIM', queue, #entries, '-1') end
  if group ~= '' and redis.call('EXISTS', queue) == 0 then
    redis.call('ZREM', base .. 'k:' .. no, group)
    redis.call('ZREM', base .. 'n:' .. no, group)
  end
  left = left - #entries
  if left > 0 and #entries > 0 then
    word, ended_at = 'more', string.format('%.0f', left)
    if group ~= '' then ended_at = parked_place(since, group, ended_at) end
  else
    group, since = next_parked(no, since, group)
    if group then word, ended_at = 'more', parked_place(since, group, '') end
  end
else
  purge_page('d:' .. no, DEAD)
end
--# include wake
if events then
--# include record
end
return { word, purged, kept, next_from, ended_at }
