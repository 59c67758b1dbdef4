-- Buckets: a topic's messages of one hour, by due time. The only file that knows their structure: one sorted
-- set for each topic and hour, `b:<topic no>:<hour>`, id‖gen -> due ms.
local HOUR_MS = 3600000

local last_start, last_no, last_bucket
local function bucket_of(no, due)
  local start = due - due % HOUR_MS
  if start ~= last_start or no ~= last_no then
    last_start, last_no, last_bucket = start, no, 'b:' .. no .. ':' .. string.format('%.0f', start / HOUR_MS)
  end
  return last_bucket
end

-- Refuses the call where the bucket of this time is no bucket. To be called before a message is written.
local function bucket_check(no, due) must_be('zset', bucket_of(no, due)) end

-- Adds id‖gen members with their due times: `members` is due, member, due, member, … of one bucket, at most
-- 1,000 values; `first` the earliest of them.
local function bucket_add(bucket, first, members)
  redis.call('ZADD', base .. bucket, unpack(members))
  alarm(bucket, first)
end

-- Whether a pending message is delayed still; otherwise it is ready.
local function is_delayed(m)
  return redis.call('ZSCORE', base .. bucket_of(m.no, m.due), m.id .. gen_bytes(m.gen)) ~= false
end

-- Takes a pending message out of its bucket, or out of the count of those that are ready.
local function unplace(m)
  local bucket = bucket_of(m.no, m.due)
  if redis.call('ZREM', base .. bucket, m.id .. gen_bytes(m.gen)) == 0 then
    count('ready', m.no, -1)
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

-- The due time of a bucket's first message, or nil.
local function bucket_head(bucket)
  return tonumber(redis.call('ZRANGE', base .. bucket, 0, 0, 'WITHSCORES')[2])
end

-- The first `n` members that are due at `ms`.
local function bucket_due(bucket, ms, n)
  return redis.call('ZRANGEBYSCORE', base .. bucket, '-inf', ms, 'LIMIT', 0, n)
end

-- When `members`, the bucket's first, are due: due, count, … in at most 8 runs. A run of several ms is told as
-- its first, so that no lateness is told too small.
local function bucket_runs(bucket, first, members)
  local left = #members
  local last = left == 1 and first or tonumber(redis.call('ZSCORE', base .. bucket, members[left]))
  local width, low, runs = math.max(1, math.ceil((last - first + 1) / 8)), first, {}
  while low + width <= last do
    local some = redis.call('ZCOUNT', base .. bucket, low, low + width - 1)
    if some > 0 then
      runs[#runs + 1], runs[#runs + 2] = low, some
      left = left - some
    end
    low = low + width
  end
  runs[#runs + 1], runs[#runs + 2] = low, left
  return runs
end

-- Takes the first `n` members out.
local function bucket_drop(bucket, n) redis.call('ZREMRANGEBYRANK', base .. bucket, 0, n - 1) end
