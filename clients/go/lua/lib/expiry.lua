-- Expiries that move with the due time: the topic's and those of a lifetime move, an absolute one stays.

-- The expiry of `m` when due at `due`; nil without an expiry. If the topic's messages no longer expire: LAST_MS, which
-- never comes.
local function expiry_at(m, due)
  local _, expires, _, _, _, _, lifetime = fields(m.env, m.flags)
  if not expires or bit.band(m.flags, RELATIVE) == 0 then return expires end
  local after = lifetime or policy(m.no, 'expire_after_ms')
  return after == 0 and LAST_MS or math.min(due + after, LAST_MS)
end

-- Writes the expiry of `m`: into the body if it moves, and into the index unless it never comes.
local function set_expiry(m, expires)
  local name = m.no .. ':' .. m.id
  if bit.band(m.flags, RELATIVE) > 0 then
    local before = bit.band(m.flags, HASH) > 0 and 40 or 32
    redis.call('SETRANGE', base .. 'm:' .. name, before, struct.pack('>I8', expires))
  end
  if expires == LAST_MS then
    redis.call('ZREM', base .. 'expiries', name)
  else
    alarm('expiries', expires)
    redis.call('ZADD', base .. 'expiries', expires, name)
  end
end
