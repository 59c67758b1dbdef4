-- Moving one pending message to another due time.

-- When `m` expires once it is due at `due`; nil: never. An expiry that goes by the topic moves along with the due
-- time, one that the producer gave stays.
local function expiry_at(m, due)
  local _, expires = fields(m.env, m.flags)
  if not expires or bit.band(m.flags, RELATIVE) == 0 then return expires end
  local after = policy(m.no, 'expire_after_ms')
  if after == 0 then after = math.max(expires - m.due, 1) end
  return math.min(due + after, 9007199254740991)
end

-- Takes `m` out of where it is and puts it to `due`, unless it is there already: 'ready' or 'delayed'. What is ready,
-- and was so no earlier than at `due`, keeps its place in the queue.
local function move_to(m, due)
  if m.due == due then return state_of(m) end
  local expires = expiry_at(m, due)
  place_check(m, due)
  local stays = due <= math.max(m.due, m.at) and due <= now and not held and not is_delayed(m)
  if not stays then unplace(m) end
  if bit.band(m.flags, RELATIVE) > 0 then
    local before, name = bit.band(m.flags, HASH) > 0 and 40 or 32, m.no .. ':' .. m.id
    redis.call('SETRANGE', base .. 'm:' .. name, before, struct.pack('>I8', expires))
    redis.call('ZADD', base .. 'expiries', expires, name)
    alarm('expiries', expires)
  end
  if not stays then return place(m, due) end
  m.due = due
  join_group(m)
  write_head(m)
  return 'ready'
end
