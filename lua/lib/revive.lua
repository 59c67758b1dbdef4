-- Makes the dead letter `m` ready, or delayed until `due`, with attempts counted from the start: the answer. `expires`
-- is its expiry then, if it has one; `renew` changes its terms.
local function revive(m, due, expires, renew)
  local dead = m.id .. gen_bytes(m.gen)
  m.flags, m.attempt = bit.band(m.flags, bit.bnot(DOOMED)), 0
  if renew then renew(m, expires) end
  if expires then set_expiry(m, expires) end
  local word = place(m, due)
  redis.call('HDEL', base .. 'w:' .. m.no, m.id)
  redis.pcall('ZREM', base .. 'd:' .. m.no, dead)
  note(m.no, m.id, 'replayed %.0f %s', due, word)
  return string.format('%s %.0f', word, due)
end
