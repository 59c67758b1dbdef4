-- reserve/allowance: applies a topic's pause and rate.
--
-- NEEDS    base, come_back, now_us
-- GIVES    allowance

-- Number of messages that the topic may hand out now: all, or the remainder of its pause and rate (messages a second).
-- The rate is a leaky bucket (GCRA) with a burst of 100 ms, at least one message; `tat` is the time when the bucket is
-- empty.
local function allowance(no, paused, rate, tat)
  if paused then return 0 end
  if not rate then return math.huge end
  local interval = 1000000 / rate
  local burst = math.max(interval, 100000)
  tat = math.max(tonumber(tat) or 0, now_us)
  local full = now_us + math.ceil(burst)
  if tat > full then
    -- More than the bucket holds: the clock read ahead, or the rate was lower.
    tat = full
    redis.call('HSET', base .. 't:' .. no, 'tat', string.format('%.0f', tat))
  end
  local allowed = math.floor((now_us + burst - tat) / interval + 0.000001)
  if allowed < 1 then come_back(math.ceil((tat + interval - burst - now_us) / 1000)) end
  return math.max(allowed, 0), interval, tat
end
