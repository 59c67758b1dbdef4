-- Walks over the buckets of one topic by time, for queries.

-- Maximum hours per call.
local MOST_HOURS = 1000

-- Iterates over the possible buckets of the topic, from `hour` on in order: a function that returns the next bucket and
-- its hour, or nil. The iteration visits hours with any alarm, so the cost depends on the hours in use, not on the
-- topics that use them. Each hour comes once, whatever happens between two calls.
local function hours_of(no, hour)
  local alarms, prefix, late = base .. 'alarms', 'b:' .. no .. ':', {}
  -- Blocked work returns within ten seconds: a bucket's alarm is then later than its hour.
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', alarms, '-inf', now + 10000, 'LIMIT', 0, 5000)) do
    if string.sub(member, 1, #prefix) == prefix then late[#late + 1] = tonumber(string.sub(member, #prefix + 1)) end
  end
  table.sort(late)
  return function()
    local from = string.format('%.0f', hour * HOUR_MS)
    local head = redis.call('ZRANGEBYSCORE', alarms, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    local found = head and math.floor(tonumber(head) / HOUR_MS)
    while late[1] and late[1] < hour do table.remove(late, 1) end
    if late[1] and (not found or late[1] < found) then found = late[1] end
    if not found then return nil end
    hour = found + 1
    return prefix .. string.format('%.0f', found), found
  end
end

-- The first `limit` members of the topic's first nonempty bucket in [from, to], and its name; nothing and nil without
-- one. If the hours of a call do not suffice, the third result is the time to continue from.
local function bucket_page(no, from, to, limit)
  local looked = 0
  for bucket, hour in hours_of(no, math.floor(from / HOUR_MS)) do
    if hour * HOUR_MS > to then break end
    if looked == MOST_HOURS then return {}, nil, hour * HOUR_MS end
    looked = looked + 1
    -- A key of another type holds no messages: an audit reports it.
    local members = redis.pcall('ZRANGEBYSCORE', base .. bucket, from, to, 'LIMIT', 0, limit)
    if #members > 0 then return members, bucket end
  end
  return {}, nil
end
