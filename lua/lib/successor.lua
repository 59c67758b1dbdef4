-- The successor of a leased message: the last throttled put during the lease. The key of the message holds both, and the end of the
-- lease puts the successor in the place of the message. No index and no counter knows the successor before.

-- The successor's envelope; nil if missing, unreadable or expired. The next write of the message drops the successor.
local function successor_of(m)
  local env = take_successor(m)
  if not env then return nil end
  local whole, _, expires = pcall(fields, env, (struct.unpack('>I2', env, 3)))
  return whole and not (expires and expires <= now) and env or nil
end

-- Turns `m` into the successor, with attempts from the start, and leaves the write to the caller. Returns the due time.
local function become(m, env)
  local _, _, flags, _, due, _, _, _, max = struct.unpack(HEAD, env)
  m.flags, m.delivery, m.attempt, m.max, m.env = flags, 0, 0, max, env
  return due
end

-- Lists the expiry of a stored successor (`is_over`: removes the expiry of the message before).
local function renew_expiry_of(m, had_expiry, is_over)
  local _, expires = group_and_expiry(m)
  if expires and not is_over then
    alarm('expiries', expires)
    redis.call('ZADD', base .. 'expiries', expires, m.no .. ':' .. m.id)
  elseif had_expiry and not expires and is_over then
    redis.pcall('ZREM', base .. 'expiries', m.no .. ':' .. m.id)
  end
end

-- Ends the leased message `m` (delivered, cancelled, expired or buried) and stores the successor like a new put. False without a
-- successor: the caller ends the message.
local function succeed(m, outcome, reason)
  local env = successor_of(m)
  if not env then return false end
  local freed_group, _, had_expiry = turn_behind(m), group_and_expiry(m)
  local new = { no = m.no, id = m.id, format = FORMAT, changed = true }
  local due = become(new, env)
  renew_expiry_of(new, had_expiry, false)
  local word = place(new, due)
  renew_expiry_of(new, had_expiry, true)
  unblock(m, freed_group)
  count(outcome, m.no, 1)
  if outcome == 'buried' then count('replaced', m.no, 1) end
  count('accepted', m.no, 1)
  note(m.no, m.id, reason and '%s %s' or '%s', outcome, string.sub(reason or '', 1, 200))
  note(m.no, m.id, 'put %.0f %s', due, word == 'ready' and 'ready' or 'stored')
  return true
end
