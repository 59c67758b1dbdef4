#!lua flags=allow-oom
-- purge: throws messages of one topic away, in steps.
--
-- MOVES    DELAYED (due in the range) | READY (all, oldest first) | DEAD (died in the range) -> purged
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, delayed | ready | dead, from ms, to ms (both inclusive; without meaning for ready),
--          limit (1 to 500)
-- RETURNS  more | done, purged. A step that finds nothing more is the last; an interrupted purge is simply
--          called again
-- COST     O(log n) a message
--# include now, shard, topic, alarm, envelope, bucket, finish, look

local no, state, from, to, limit = topic_no(ARGV[2]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if not no then return { 'done', 0 } end
must_be('hash', 'stats')
must_be('zset', 'markers')
local purged = 0

local function purge(member, wanted)
  local m = read(no, string.sub(member, 1, -5))
  if not m or m.state ~= wanted or gen_bytes(m.gen) ~= string.sub(member, -4) then return end
  if wanted == PENDING then unplace(m) end
  finish(m, 'purged')
  purged = purged + 1
end

local more = false
if state == 'delayed' then
  local members, bucket = bucket_page(no, from, to, limit)
  for _, member in ipairs(members) do
    purge(member, PENDING)
    redis.call('ZREM', base .. bucket, member)
  end
  more = bucket ~= nil
elseif state == 'ready' then
  must_be('list', 'r:' .. no)
  local entries = redis.call('LRANGE', base .. 'r:' .. no, 0, limit - 1)
  for _, entry in ipairs(entries) do purge(string.sub(entry, 1, -8), PENDING) end
  if #entries > 0 then redis.call('LPOP', base .. 'r:' .. no, #entries) end
  more = #entries == limit
elseif state == 'dead' then
  must_be('zset', 'd:' .. no)
  local members = redis.call('ZRANGEBYSCORE', base .. 'd:' .. no, from, to, 'LIMIT', 0, limit)
  for _, member in ipairs(members) do
    purge(member, DEAD)
    redis.call('ZREM', base .. 'd:' .. no, member)
  end
  more = #members == limit
else
  return redis.error_reply('DQARG delayed, ready or dead, not ' .. state)
end
wake_timer()
return { more and 'more' or 'done', purged }
