-- Moves one pending message to another due time.

-- Moves `m` to `due` and removes it from its old place, unless already there: 'ready' or 'delayed'. A message that was
-- ready at or after `due` keeps its place in the queue.
local function move_to(m, due)
  if m.due == due then return state_of(m) end
  local old, word = { no = m.no, id = m.id, due = m.due, gen = m.gen, flags = m.flags, env = m.env }, 'ready'
  local expires = bit.band(m.flags, RELATIVE) > 0 and expiry_at(m, due)
  local stays = due <= math.max(m.due, m.at) and due <= now and not held and not is_delayed(m)
  -- Ordered so that the due time never equals the expiry in between.
  if expires and due > old.due then set_expiry(m, expires) end
  if stays then
    m.due = due
    join_group(m, (group_and_expiry(m)))
    write_head(m)
  else
    word = place(m, due)
  end
  if expires and due < old.due then set_expiry(m, expires) end
  if not stays then unplace(old) end
  note(m.no, m.id, 'rescheduled %.0f %.0f %s', old.due, due, word)
  return word
end

-- Moves `m` to a due time of its own. A failed message no longer blocks its group then.
local function reschedule_to(m, due)
  if m.due == due then return state_of(m) end
  local freed_group = turn_behind(m)
  m.flags = bit.band(m.flags, bit.bnot(BLOCKS))
  local word = move_to(m, due)
  unblock(m, freed_group)
  return word
end
