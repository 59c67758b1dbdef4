-- Puts one message into the state for its due time: ready, or its bucket.

-- Sets the due time of `m` in its group's index.
local function join_group(m, group)
  if group then redis.call('ZADD', base .. 'g:' .. group, m.due, m.no .. ':' .. m.id) end
end

-- Moves `m` to its due time under a new gen, and writes its head: 'ready' or 'delayed'. The caller has taken a gen, and
-- removes the message from its old place afterwards: an interrupted script then leaves a stale entry, never a message
-- without an entry. The group comes behind the place: an audit finds a stale entry, but no wrong time in a group.
local function place(m, due)
  local group = group_and_expiry(m)
  m.state, m.due, m.at = PENDING, due, now
  m.gen = gen(bit.band(m.flags, INDEXED) > 0)
  local member = m.id .. gen_bytes(m.gen)
  local ready = due <= now and not held
  if ready then
    push_ready(m.no, member .. ready_stamp(), m.flags, group)
  else
    bucket_add(bucket_of(m.no, due), due, { due, member })
  end
  join_group(m, group)
  write_head(m)
  return ready and 'ready' or 'delayed'
end
