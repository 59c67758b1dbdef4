-- The way into the dead letters.

-- Moves `m` to the dead letters, ordered by the time of its death, with the reason (at most 1,000 bytes) at the envelope's end.
local function kill(m, reason)
  reason = string.sub(reason, 1, 1000)
  leave_indexes(m)
  m.state, m.at, m.gen = DEAD, now, gen(bit.band(m.flags, INDEXED) > 0)
  m.flags = bit.bor(m.flags, REASON)
  redis.call('APPEND', base .. 'm:' .. m.no .. ':' .. m.id, reason .. struct.pack('>I2', #reason))
  write_head(m)
  redis.call('ZADD', base .. 'd:' .. m.no, now, m.id .. gen_bytes(m.gen))
  count('buried', m.no, 1)
end
