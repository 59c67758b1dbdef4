-- Puts one message into the state that its due time asks for: ready, or into its bucket.

-- Refuses, before anything is changed, where a key on the way of `m` to `due` is of the wrong type.
local function place_check(m, due)
  if due <= now and not held then must_be('list', 'r:' .. m.no) else bucket_check(m.no, due) end
  index_check(m)
end

-- Sets the due time of `m` in the index of its group.
local function join_group(m)
  if bit.band(m.flags, GROUP) == 0 then return end
  local _, _, _, group = fields(m.env, m.flags)
  redis.call('ZADD', base .. 'g:' .. group, m.due, m.no .. ':' .. m.id)
end

-- Moves `m` to its due time, under a new gen, and writes its head: 'ready' or 'delayed'. The caller has checked it,
-- has taken a gen, and takes the message out of where it was afterwards: a script that is cut off leaves an entry too
-- many, which is stale, and never a message without one.
local function place(m, due)
  m.state, m.due, m.at = PENDING, due, now
  m.gen = gen(bit.band(m.flags, INDEXED) > 0)
  local member = m.id .. gen_bytes(m.gen)
  local ready = due <= now and not held
  if ready then
    push_ready(m.no, { member .. ready_stamp() })
  else
    bucket_add(bucket_of(m.no, due), due, { due, member })
  end
  join_group(m)
  write_head(m)
  return ready and 'ready' or 'delayed'
end
