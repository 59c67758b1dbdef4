-- What becomes of a leased message that was not delivered: tried again later, dead, or cancelled after all.

-- Back-off: kind (1 byte: 1 fixed, 2 exponential, 3 list), then 4-byte numbers in ms: the delay | the first
-- and the longest delay | the delays, of which the last repeats. Exponential doubles, and takes between half
-- and the whole of it by chance.
local DEFAULT_BACKOFF = struct.pack('>BI4I4', 2, 1000, 600000)

local function backoff_ms(m)
  local _, _, own = fields(m.env, m.flags)
  local spec = own or redis.call('HGET', base .. 't:' .. m.no, 'backoff') or DEFAULT_BACKOFF
  local kind, steps = string.byte(spec), (#spec - 1) / 4
  local step = math.max(m.attempt, 1)
  if kind == 2 then
    local first, longest = struct.unpack('>I4I4', spec, 2)
    local delay = math.min(longest, first * 2 ^ math.min(step - 1, 32))
    -- Redis seeds math.random alike in every script: the gen and the clock are the dice.
    return math.floor(delay / 2 + delay / 2 * ((m.gen * 7919 + now_us) % 1000) / 1000)
  end
  return (struct.unpack('>I4', spec, 2 + 4 * (math.min(step, steps) - 1)))
end

-- Leased -> delayed or ready again after `delay` ms (nil: the message's back-off), or dead with `reason` where
-- its attempts are used up, or expired, or cancelled where that was asked for meanwhile. Returns the word.
local function give_back(m, delay, reason)
  if bit.band(m.flags, DOOMED) > 0 then
    finish(m, 'cancelled')
    return 'cancelled'
  end
  local _, expires = fields(m.env, m.flags)
  if expires and expires <= now then
    finish(m, 'expired')
    return 'expired'
  end
  if m.max > 0 and m.attempt >= m.max then
    kill(m, reason)
    return 'buried'
  end
  local due = now + (delay or backoff_ms(m))
  place_check(m, due)
  return place(m, due)
end
