-- reserve/topic: takes from one topic as much as its policy and the limits of the call allow.
--
-- NEEDS    allowance, answer, any_paused, await_tokens, base, begun, blocked, blocking, broken, bytes, come_back,
--          drop_unleased, fair, give_tokens, lease_ms, limit, looks, max_bytes, now, pace, place, queued, rooms,
--          set_pace, take, take_parked, topic_lease, wanted, MOST_IDS
-- CHANGES  any_paused, begun, blocked, blocking, broken, fair, limit, queued, rooms
-- GIVES    reserve_from, served

-- True once a topic was served: of a topic begun by the fast path, only what was taken counts.
local served = #answer > (begun and 9 or 6)

-- Applies the limits of the topic's groups, their pauses and their order. Without any, ends the marks of an earlier limit once no
-- message is subject to them.
local function limit_groups(no, grouped, in_flight, paused_groups, failed, order, rate)
  local most = tonumber(in_flight) or 0
  limit, rooms, queued, any_paused = grouped and (most > 0 and most or math.huge), {}, {}, paused_groups
  blocking, blocked, fair = failed == 'block', {}, order == 'fair'
  set_pace(limit and rate)
  if pace then give_tokens(no) end
  if limit == math.huge and not any_paused and not blocking and not fair and not pace
    and redis.call('EXISTS', base .. 'k:' .. no) == 0 and (tonumber(redis.call('HGET', base .. 'stats', 'leased:' .. no)) or 0) <= 0 then
    redis.call('HDEL', base .. 't:' .. no, 'grouped')
  end
end

-- Takes up to `most` messages from the ready queue, with more than `least` looks left. Returns the number
-- taken.
local function take_queued(no, most, until_ms, least)
  local taken, over = 0, bytes >= max_bytes
  while not over and wanted > 0 and looks > least and most > taken do
    local got, last = take(no, math.min(wanted, looks - least, most - taken), until_ms)
    taken, over = taken + got, last or bytes >= max_bytes
  end
  if looks <= least and not over then come_back(0) end
  return taken
end

-- Takes from topic `no`, whose place in the answer is `begun`.
local function take_allowed(no)
  local terms = redis.call('HMGET', base .. 't:' .. no, 'paused', 'rate', 'tat', 'lease_ms', 'grouped', 'group_in_flight',
    'paused_groups', 'group_failed', 'group_order', 'group_rate')
  local paused, rate, empty_at, topic_lease_ms = unpack(terms)
  limit_groups(no, unpack(terms, 5))
  local allowed, interval, tat = allowance(no, paused, tonumber(rate), empty_at)
  local until_ms = now + (lease_ms or topic_lease(topic_lease_ms))
  if not answer[begun + 1] then answer[begun + 1], answer[begun + 2], answer[begun + 3] = place - 4, until_ms, 0 end
  -- In fair order the queue has what was ready before, and parks it: the looks that are left are for the turns.
  local taken = fair and take_queued(no, allowed, until_ms, wanted) or 0
  if limit then taken = taken + take_parked(no, math.min(allowed - taken, MOST_IDS), until_ms) end
  if not fair then taken = taken + take_queued(no, allowed - taken, until_ms, 0) elseif looks <= 0 then come_back(0) end
  if pace and allowed > taken and wanted > 0 then await_tokens(no) end
  if interval and taken > 0 then
    redis.call('HSET', base .. 't:' .. no, 'tat', string.format('%.0f', tat + taken * interval))
    if taken >= allowed and wanted > 0 then come_back(math.ceil(interval / 1000)) end
  end
end

-- Takes from the topic at `place`. A fault stops no other topic: this one keeps what is leased.
local function reserve_from(no)
  begun = begun or #answer
  local sound, fault = pcall(take_allowed, no)
  if not sound then
    broken = fault
    if not answer[begun + 1] then answer[begun + 1], answer[begun + 2], answer[begun + 3] = place - 4, 0, 0 end
    drop_unleased()
    if answer[begun + 3] == 0 then answer[begun + 2] = 0 end
  end
  served, begun = served or sound or answer[begun + 3] > 0, nil
end
