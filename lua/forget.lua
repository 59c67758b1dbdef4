#!lua flags=allow-oom
-- forget: takes an empty topic out of the shard, with its policy and its counters. Its number is not given out again.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, look | forget
-- RETURNS  unknown (nothing was ever put into it, or it was forgotten) | kept <why> (it holds messages in any state,
--          or may) | empty (and so it stays: it was only looked at) | forgotten (markers of its
--          messages stay until their time is over, but no put finds them any more)
-- COST     O(log n) an hour that has any alarm, n = alarms; 1,000 hours at most
--# include now, shard, arguments, topic, alarm, envelope, bucket, look

arguments('forget', 3)
local what = one_of('what to do', ARGV[3], { 'look', 'forget' })
local no = topic_no(ARGV[2])
if not no then return 'unknown' end
must_be('hash', 'stats')

local COUNTERS = { 'accepted', 'delivered', 'cancelled', 'expired', 'purged', 'replaced', 'ready', 'leased', 'buried' }
local names = {}
for i, name in ipairs(COUNTERS) do names[i] = name .. ':' .. no end

-- What the topic's buckets hold, or may.
local function delayed()
  local looked = 0
  for bucket in hours_of(no, 0) do
    if looked == MOST_HOURS then return 'alarms of more than ' .. MOST_HOURS .. ' hours, too many to look at' end
    looked = looked + 1
    if redis.call('EXISTS', base .. bucket) == 1 then return 'delayed messages' end
  end
end

-- What the topic holds, or may; nil where nothing. The books and the places are looked at both: a script that was cut
-- off may have left either of them behind, and a message that is forgotten would be stuck.
local function holds()
  local n = redis.call('HMGET', base .. 'stats', unpack(names))
  for i = 1, #COUNTERS do n[i] = tonumber(n[i]) or 0 end
  if redis.call('EXISTS', base .. 'r:' .. no) == 1 then return 'a ready queue' end
  if redis.call('EXISTS', base .. 'd:' .. no) == 1 then return 'dead letters' end
  if n[8] ~= 0 then return 'leased messages' end
  local found = delayed()
  if found then return found end
  if n[7] ~= 0 or n[1] ~= n[2] + n[3] + n[4] + n[5] + n[6] then return 'books that do not balance' end
end

local why = holds()
if why then return 'kept ' .. why end
if what == 'look' then return 'empty' end
-- The counters go together, so the books balance without them as well. The name goes before what stands behind it: a topic
-- that can still be found has all that a put needs.
redis.call('HDEL', base .. 'stats', unpack(names))
redis.call('HDEL', KEYS[1], 'topic:' .. ARGV[2])
redis.call('UNLINK', base .. 't:' .. no)
return 'forgotten'
