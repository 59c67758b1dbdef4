-- reserve/topic: takes from one topic as much as its policy and the limits of the call allow.
--
-- NEEDS    allowance, answer, any_paused, base, begun, broken, bytes, come_back, lease_ms, limit, looks, max_bytes,
--          must_be, now, place, queued, rooms, take, take_parked, topic_lease, topic_no, wanted, MOST_IDS
-- CHANGES  any_paused, begun, broken, limit, looks, queued, rooms, wanted
-- GIVES    reserve_from, served

-- The policy of a topic for handing out.
local function terms(no)
  must_be('list', 'r:' .. no)
  local values = redis.pcall('HMGET', base .. 't:' .. no, 'paused', 'rate', 'tat', 'lease_ms', 'grouped', 'group_in_flight',
    'paused_groups')
  if values.err then must_be('hash', 't:' .. no) end
  if values[5] then
    must_be('zset', 'k:' .. no)
    must_be('zset', 'n:' .. no)
  end
  if values[7] then must_be('zset', 'q:' .. no) end
  return values
end

local served = #answer > 6

-- Applies the limit of the topic's groups and their pauses. Without any, ends the marks of an earlier limit once no message is
-- subject to them.
local function limit_groups(no, grouped, in_flight, paused_groups)
  local most = tonumber(in_flight) or 0
  limit, rooms, queued, any_paused = grouped and (most > 0 and most or math.huge), {}, {}, paused_groups
  if limit == math.huge and not any_paused and redis.call('EXISTS', base .. 'k:' .. no) == 0
    and (tonumber(redis.call('HGET', base .. 'stats', 'leased:' .. no)) or 0) <= 0 then
    redis.call('HDEL', base .. 't:' .. no, 'grouped')
  end
end

local function reserve_from(topic)
  local no = topic_no(topic)
  if not no then return end
  local at = begun or #answer
  local ok, policy_or_fault = pcall(terms, no)
  if not ok then
    broken = policy_or_fault
    answer[at + 1], answer[at + 2], answer[at + 3] = place - 4, 0, 0
    return
  end
  served = true
  local paused, rate, empty_at, topic_lease_ms, grouped, in_flight, paused_groups = unpack(policy_or_fault)
  limit_groups(no, grouped, in_flight, paused_groups)
  local allowed, interval, tat = allowance(no, paused, tonumber(rate), empty_at)
  local until_ms = now + (lease_ms or topic_lease(topic_lease_ms))
  if not begun then answer[at + 1], answer[at + 2], answer[at + 3] = place - 4, until_ms, 0 end
  local taken, over = limit and take_parked(no, math.min(allowed, MOST_IDS), until_ms) or 0, bytes >= max_bytes
  while not over and wanted > 0 and looks > 0 and allowed > taken do
    local got, seen, last = take(no, math.min(wanted, looks, allowed - taken), until_ms)
    taken, wanted, looks = taken + got, wanted - got, looks - seen
    over = last or bytes >= max_bytes
  end
  answer[at + 3], begun = answer[at + 3] + taken, nil
  if looks <= 0 and not over then come_back(0) end
  if interval and taken > 0 then
    redis.call('HSET', base .. 't:' .. no, 'tat', string.format('%.0f', tat + taken * interval))
    if taken >= allowed and wanted > 0 then come_back(math.ceil(interval / 1000)) end
  end
end
