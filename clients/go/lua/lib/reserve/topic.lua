-- reserve/topic: takes from one topic as much as its policy and the limits of the call allow.
--
-- NEEDS    allowance, answer, base, begun, broken, bytes, come_back, lease_ms, looks, max_bytes, must_be, now, place,
--          take, topic_lease, topic_no, wanted
-- CHANGES  begun, broken, looks, wanted
-- GIVES    reserve_from, served

-- The policy of a topic for handing out.
local function terms(no)
  must_be('list', 'r:' .. no)
  local values = redis.pcall('HMGET', base .. 't:' .. no, 'paused', 'rate', 'tat', 'lease_ms')
  if values.err then must_be('hash', 't:' .. no) end
  return values
end

local served = #answer > 6

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
  local paused, rate, empty_at, topic_lease_ms = unpack(policy_or_fault)
  local allowed, interval, tat = allowance(no, paused, tonumber(rate), empty_at)
  local until_ms = now + (lease_ms or topic_lease(topic_lease_ms))
  if not begun then answer[at + 1], answer[at + 2], answer[at + 3] = place - 4, until_ms, 0 end
  local taken, over = 0, false
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
