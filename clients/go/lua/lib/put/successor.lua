-- put/successor: stores a throttled put behind a leased message, in the message's own key (`successor.lua`).
--
-- NEEDS    call, due, head_of, keep, key_of, largest, no, now, parts_of, sub, whole_of, FORMAT, HEAD, PENDING,
--          WITH_SUCCESSOR
-- CHANGES  due, largest
-- GIVES    put_successor

-- Stores the put, or leaves an earlier successor where the option `keep` says so. Returns the answer.
local function put_successor(m, flags, env, max)
  local own, old = parts_of(whole_of(no, m.id))
  if keep and old then
    due = struct.unpack('>I8', old, 9)
  else
    m.format = WITH_SUCCESSOR
    local head = struct.pack(HEAD, FORMAT, PENDING, flags, 0, due, now, 0, 0, max)
    local body = head_of(m) .. sub(own, 33) .. head .. sub(env, 33) .. struct.pack('>I4', #env)
    call('SET', key_of .. m.id, body)
    largest = math.max(largest, #body)
  end
  return string.format('again leased %.0f %.0f', m.due, due)
end
