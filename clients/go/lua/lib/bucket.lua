-- Buckets: a topic's messages of one hour, by due time, a sorted set of id‖gen -> due ms. `hour.lua` names them; besides
-- this file, `bucket_due.lua` and `put.lua` know their structure.

-- Refuses the call where the bucket of this time is no bucket. To be called before a message is written.
local function bucket_check(no, due) must_be('zset', bucket_of(no, due)) end

-- Adds id‖gen members with their due times: `members` is due, member, due, member, … of one bucket, at most
-- 1,000 values; `first` the earliest of them.
local function bucket_add(bucket, first, members)
  alarm(bucket, first)
  redis.call('ZADD', base .. bucket, unpack(members))
end

-- Whether a pending message is delayed still; otherwise it is ready. A bucket of another type may have it.
local function is_delayed(m)
  return redis.pcall('ZSCORE', base .. bucket_of(m.no, m.due), m.id .. gen_bytes(m.gen)) ~= false
end

-- How many entries of each topic's ready queue the call made stale.
local made_stale = {}

-- Takes a pending message out of its bucket, or out of the count of those that are ready.
local function unplace(m)
  local bucket = bucket_of(m.no, m.due)
  if redis.call('ZREM', base .. bucket, m.id .. gen_bytes(m.gen)) == 0 then
    count('ready', m.no, -1)
    made_stale[m.no] = (made_stale[m.no] or 0) + 1
  elseif redis.call('EXISTS', base .. bucket) == 0 then
    -- The hour may be years away: nothing is left behind for it.
    redis.call('ZREM', base .. 'alarms', bucket)
  end
end

-- The word for where a message is.
local function state_of(m)
  if m.state == PENDING then return is_delayed(m) and 'delayed' or 'ready' end
  return STATE[m.state]
end
