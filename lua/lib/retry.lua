-- The fate of a leased message that was not delivered: retried, dead, or cancelled after all.

-- The message's back-off, or the topic's, or the default: an invalid stored back-off must not keep a message leased.
local function backoff_of(m)
  local _, _, own = fields(m.env, m.flags)
  if own and is_backoff(own) then return own end
  local of_topic = redis.call('HGET', base .. 't:' .. m.no, 'backoff')
  return of_topic and is_backoff(of_topic) and of_topic or DEFAULT_BACKOFF
end

local function backoff_ms(m)
  local spec = backoff_of(m)
  local kind, steps = string.byte(spec), (#spec - 1) / 4
  local step = math.max(m.attempt, 1)
  if kind == 2 then
    local first, longest = struct.unpack('>I4I4', spec, 2)
    local delay = math.min(longest, first * 2 ^ math.min(step - 1, 32))
    -- Redis seeds math.random alike in every script: gen and clock serve as randomness.
    return math.floor(delay / 2 + delay / 2 * ((m.gen * 7919 + now_us) % 1000) / 1000)
  end
  return (struct.unpack('>I4', spec, 2 + 4 * (math.min(step, steps) - 1)))
end

-- Leased -> delayed or ready again after `delay` ms (nil: the message's back-off), or dead with `reason` after the last
-- attempt, or expired, or cancelled if requested meanwhile. A successor takes its place. Returns the word.
local function give_back(m, delay, reason)
  if bit.band(m.flags, DOOMED) > 0 then
    if not succeed(m, 'cancelled') then finish(m, 'cancelled') end
    return 'cancelled'
  end
  local _, expires = fields(m.env, m.flags)
  if expires and expires <= now then
    if not succeed(m, 'expired') then finish(m, 'expired') end
    return 'expired'
  end
  if m.max > 0 and m.attempt >= m.max then
    if not succeed(m, 'buried', reason) then kill(m, reason) end
    return 'buried'
  end
  local due, env = now + (delay or backoff_ms(m)), successor_of(m)
  if env then
    -- As a throttled put replaces a pending message: the due time stays, and so does a block.
    local blocks = bit.band(m.flags, BLOCKS)
    become(m, env)
    m.flags = bit.bor(m.flags, blocks)
    note(m.no, m.id, 'replaced')
  end
  -- The pump removed an expiry from the index if the clock read later meanwhile.
  renew_expiry_of(m, expires, false)
  local word = place(m, due)
  if env then
    renew_expiry_of(m, expires, true)
    count('replaced', m.no, 1)
    count('accepted', m.no, 1)
  end
  return word
end
