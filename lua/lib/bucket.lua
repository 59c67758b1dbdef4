-- Buckets: a topic's messages of one hour by due time, a sorted set of id‖gen -> due ms. `hour.lua` names buckets;
-- `pump/bucket_due.lua` and `put/plain.lua` also know their structure.

-- Adds id‖gen members with their due times: `members` is due, member, due, member, … of one bucket, at most 1,000
-- values; `first` is the earliest due time.
local function bucket_add(bucket, first, members)
  alarm(bucket, first)
  redis.call('ZADD', base .. bucket, unpack(members))
end

-- True if a pending message is still delayed; otherwise the message is ready. A bucket of the wrong type may hold it.
local function is_delayed(m)
  return redis.pcall('ZSCORE', base .. bucket_of(m.no, m.due), m.id .. gen_bytes(m.gen)) ~= false
end

-- Number of entries that this call made stale in each topic's ready queue, and the messages of groups among them.
local made_stale, stale_in_groups = {}, {}

-- Removes a message that was pending from its bucket, or from the count of ready messages. Call once the message is
-- elsewhere or over: an entry that cannot be removed is stale.
local function unplace(m)
  local bucket = bucket_of(m.no, m.due)
  if redis.pcall('ZREM', base .. bucket, m.id .. gen_bytes(m.gen)) == 0 then
    count('ready', m.no, -1)
    made_stale[m.no] = (made_stale[m.no] or 0) + 1
    if bit.band(m.flags, GROUP) > 0 then stale_in_groups[#stale_in_groups + 1] = m end
  elseif redis.call('EXISTS', base .. bucket) == 0 then
    -- The hour may be years away, so an empty bucket's alarm is removed.
    redis.pcall('ZREM', base .. 'alarms', bucket)
  end
end

-- The word for a message's state.
local function state_of(m)
  if m.state == PENDING then return is_delayed(m) and 'delayed' or 'ready' end
  return STATE[m.state]
end
