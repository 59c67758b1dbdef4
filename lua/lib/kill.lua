-- Moving messages to the dead letters.

-- Moves `m` to the dead letters, ordered by time of death, with the reason (at most 1,000 bytes) at the envelope's end.
-- The body is written in one command: interrupted in between, a payload with a reason at its end would be delivered.
local function kill(m, reason, body)
  must_be('zset', 'd:' .. m.no)
  index_check(m)
  reason, body = string.sub(reason, 1, 1000), body or string.sub(whole_of(m.no, m.id), 33)
  m.state, m.at, m.gen = DEAD, now, gen(bit.band(m.flags, INDEXED) > 0)
  m.flags = bit.bor(m.flags, REASON)
  redis.call('ZADD', base .. 'd:' .. m.no, now, m.id .. gen_bytes(m.gen))
  redis.call('SET', base .. 'm:' .. m.no .. ':' .. m.id,
    head_of(m) .. body .. reason .. struct.pack('>I2', #reason))
  leave_indexes(m)
  count('buried', m.no, 1)
  note(m.no, m.id, 'buried %s', string.sub(reason, 1, 200))
end

-- Turns bytes that are not an envelope into the payload of a dead letter, with the reason.
local function kill_malformed(no, id)
  must_be('zset', 'd:' .. no)
  local m = { no = no, id = id, flags = 0, due = now, delivery = 0, attempt = 0, max = 0 }
  kill(m, 'malformed envelope', whole_of(no, id))
end

-- True if the optional fields are readable.
local function is_whole(m) return (pcall(fields, m.env, m.flags)) end
