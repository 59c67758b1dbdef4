-- reserve/groups: the room of groups, of which a topic leases at most `group_in_flight` messages at a time, and none while paused.
--
-- NEEDS    base, come_back, fields, gen_bytes, now, read, sub, GROUP, LEASED
-- GIVES    any_paused, group_in, has_to_wait, limit, park, queued, room_of, rooms

-- The limit of the topic at hand, nil without; whether any of its groups is paused; the room left in its groups, and whether
-- messages of a group are parked.
local limit, any_paused, rooms, queued

-- True if a member of `f:<no>:<group>` still holds its message. An interrupted script leaves members that hold none.
local function is_in_flight(no, receipt)
  local m, why = read(no, sub(receipt, #no + 2, -5))
  return why == 'newer' or m ~= nil and m.state == LEASED and gen_bytes(m.gen) == sub(receipt, -4)
end

-- Number of further messages of the group that may be leased. A full group has at least one message in flight: the end of its
-- lease gives the group a turn, as the end of a pause does.
local function room_of(no, group)
  if not rooms[group] and any_paused and redis.call('ZSCORE', base .. 'q:' .. no, group) then rooms[group] = 0 end
  if not rooms[group] then
    local flights = base .. 'f:' .. no .. ':' .. group
    local inside = limit < math.huge and redis.call('ZCARD', flights) or 0
    while inside >= limit do
      local first = redis.call('ZRANGE', flights, '0', '0')[1]
      if is_in_flight(no, first) then break end
      redis.call('ZREM', flights, first)
      inside = inside - 1
    end
    rooms[group] = limit - inside
  end
  return rooms[group]
end

-- The group of a ready message; nil without, or if it cannot be read.
local function group_in(env, flags)
  if bit.band(flags, GROUP) == 0 then return nil end
  local whole, _, _, _, group = pcall(fields, env, flags)
  return whole and group or nil
end

-- True if a ready message has to wait: its group is full, or others of its group came before.
local function has_to_wait(no, group)
  if queued[group] == nil then queued[group] = redis.call('ZSCORE', base .. 'k:' .. no, group) ~= false end
  if not queued[group] and room_of(no, group) > 0 then return false end
  queued[group] = true
  return true
end

-- Parks an entry behind the others of its group. The index comes first, so that no parked entry is ever without a turn.
local function park(no, group, entry)
  redis.call('ZADD', base .. 'k:' .. no, 'NX', now, group)
  if room_of(no, group) > 0 then
    if redis.call('ZADD', base .. 'n:' .. no, 'NX', now, group) == 1 then redis.call('SPUBLISH', base .. 'ready', '') end
    come_back(0)
  end
  redis.call('RPUSH', base .. 'p:' .. no .. ':' .. group, entry)
end
