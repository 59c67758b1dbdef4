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
    -- A key of another type has none: an audit finds it.
    local members = redis.pcall('ZRANGEBYSCORE', base .. bucket, from, to, 'LIMIT', 0, limit)
    if #members > 0 then return members, bucket end
  end
  return {}, nil
end

-- A message as it is shown: its envelope, which says READY where it is, its gen and its state; nil where there is none. A key of
-- another type is shown as an envelope without bytes that make sense.
local function shown(no, id)
  local env = whole_of(no, id)
  local m, why = decode(no, id, env)
  if why == 'missing' then return redis.call('EXISTS', base .. 'm:' .. no .. ':' .. id) == 1 and '\0' or nil end
  if not m then return env end
  if m.state ~= PENDING or is_delayed(m) then return env, m.gen, m.state end
  return string.sub(env, 1, 1) .. string.char(READY) .. string.sub(env, 3), m.gen, READY
end

-- How many bytes of envelopes a page has at the most, but for its last one: more would hold everybody else up.
local MOST_PAGE_BYTES = 1048576
