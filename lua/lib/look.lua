-- Walking over the buckets of one topic by time, for those who look.

-- The first `limit` members of the topic's first bucket that has any in [from, to], its name, and their due
-- times as member, due, … where `scores` is asked for; nothing and nil when there is none. Looks at most at
-- 20,000 alarms; where these are not enough, the third answer is the time to go on from.
local function bucket_page(no, from, to, limit, scores)
  local prefix = 'b:' .. no .. ':'
  local hour = (from - from % HOUR_MS) / HOUR_MS
  local low = string.format('%.0f', hour * HOUR_MS)
  local alarms
  for page = 0, 19 do
    alarms = redis.call('ZRANGEBYSCORE', base .. 'alarms', low, to, 'WITHSCORES', 'LIMIT', 1000 * page, 1000)
    for i = 1, #alarms, 2 do
      local bucket = alarms[i]
      if string.sub(bucket, 1, #prefix) == prefix and tonumber(string.sub(bucket, #prefix + 1)) >= hour then
        local members = scores
          and redis.call('ZRANGEBYSCORE', base .. bucket, from, to, 'WITHSCORES', 'LIMIT', 0, limit)
          or redis.call('ZRANGEBYSCORE', base .. bucket, from, to, 'LIMIT', 0, limit)
        if #members > 0 then return members, bucket end
      end
    end
    if #alarms < 2000 then return {}, nil end
  end
  return {}, nil, tonumber(alarms[2000])
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
