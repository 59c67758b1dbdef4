-- Moving messages to the dead letters.

-- Moves `m` to the dead letters, ordered by time of death; the body stays, or becomes `body`. The reason (at most 1,000 bytes)
-- is in `w:<topic no>` under the id. An interrupted script may leave a reason without a dead letter, which a repair removes.
local function kill(m, reason, body)
  local group, expires = group_and_expiry(m)
  reason = string.sub(reason, 1, 1000)
  m.state, m.at, m.gen = DEAD, now, gen(bit.band(m.flags, INDEXED) > 0)
  redis.call('ZADD', base .. 'd:' .. m.no, now, m.id .. gen_bytes(m.gen))
  if body then
    redis.call('SET', base .. 'm:' .. m.no .. ':' .. m.id, head_of(m) .. body)
  else
    write_head(m)
  end
  redis.pcall('HSET', base .. 'w:' .. m.no, m.id, reason)
  leave_indexes(m, group, expires)
  count('buried', m.no, 1)
  note(m.no, m.id, 'buried %s', string.sub(reason, 1, 200))
end

-- Turns bytes that are not an envelope into the payload of a dead letter, with the reason.
local function kill_malformed(no, id)
  local m = { no = no, id = id, flags = 0, due = now, delivery = 0, attempt = 0, max = 0 }
  kill(m, 'malformed envelope', whole_of(no, id))
end

-- True if the optional fields are readable.
local function is_whole(m) return (pcall(fields, m.env, m.flags)) end
