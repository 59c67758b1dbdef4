-- Puts one message into the state for its due time: ready, or its bucket.

-- Before any change, refuses keys of the wrong type for placing `m` at `due`.
local function place_check(m, due)
  if due <= now and not held then must_be('list', 'r:' .. m.no) else bucket_check(m.no, due) end
  index_check(m)
end

-- Sets the due time of `m` in its group's index.
local function join_group(m)
  if bit.band(m.flags, GROUP) == 0 then return end
  local _, _, _, group = fields(m.env, m.flags)
  redis.call('ZADD', base .. 'g:' .. group, m.due, m.no .. ':' .. m.id)
end

-- Moves `m` to its due time under a new gen, and writes its head: 'ready' or 'delayed'. The caller has checked `m` and
-- taken a gen, and removes the message from its old place afterwards: an interrupted script then leaves a stale entry,
-- never a message without an entry.
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
