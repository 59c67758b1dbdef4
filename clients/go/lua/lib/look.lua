-- Walking over the buckets of one topic by time, for those who look.

-- How many hours one call looks at.
local MOST_HOURS = 1000

-- Where the topic may have buckets, from `hour` on and the earliest first: a function that answers the next bucket and its
-- hour, or nil. It goes from one hour that has any alarm to the next, so it costs by the hours that are in use, and not by
-- how many topics use them; and each hour comes once, whatever happens between two calls.
local function hours_of(no, hour)
  local alarms, prefix, late = base .. 'alarms', 'b:' .. no .. ':', {}
  -- What cannot be handled now comes back within ten seconds: its bucket has its alarm behind its hour.
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

-- The first `limit` members of the topic's first bucket that has any in [from, to], and its name; nothing and nil where
-- there is none. Where the hours of one call are not enough, the third answer is the time to go on from.
local function bucket_page(no, from, to, limit)
  local looked = 0
  for bucket, hour in hours_of(no, math.floor(from / HOUR_MS)) do
    if hour * HOUR_MS > to then break end
    if looked == MOST_HOURS then return {}, nil, hour * HOUR_MS end
    looked = looked + 1
    local members = redis.call('ZRANGEBYSCORE', base .. bucket, from, to, 'LIMIT', 0, limit)
    if #members > 0 then return members, bucket end
  end
  return {}, nil
end

-- A message as it is shown: its envelope, which says READY where it is, and its gen; nil where there is none.
local function shown(no, id)
  local m, why = read(no, id)
  if not m then
    if why == 'missing' then return nil end
    return redis.call('MGET', base .. 'm:' .. no .. ':' .. id)[1]
  end
  local state = m.state == PENDING and not is_delayed(m) and READY or m.state
  return string.sub(m.env, 1, 1) .. string.char(state) .. string.sub(m.env, 3), m.gen, state
end
