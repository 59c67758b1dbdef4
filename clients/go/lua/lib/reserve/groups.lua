-- reserve/groups: the room of groups, of which a topic leases at most `group_in_flight` messages at a time and as many a second as
-- its `group_rate` says, none while paused, and only failed ones while these block the group. In fair order every message is parked until a turn of its group.
--
-- NEEDS    await_token, base, come_back, fields, gen_bytes, next_turn, now, read, sub, tokens_of, BLOCKS, GROUP,
--          LEASED, NO_GROUP
-- GIVES    any_paused, blocked, blocking, fair, group_in, has_to_wait, is_blocked, leads, limit, park, queued, room_of,
--          rooms

-- The limit of the topic at hand, nil without; whether any of its groups is paused, and whether failed messages block; the room
-- left in its groups, whether messages of a group are parked, and whether a group is blocked; whether the groups take turns.
local limit, any_paused, blocking, rooms, queued, blocked, fair

-- True if a member of `f:<no>:<group>` still holds its message. An interrupted script leaves members that hold none.
local function is_in_flight(no, receipt)
  local m, why = read(no, sub(receipt, #no + 2, -5))
  return why == 'newer' or m ~= nil and m.state == LEASED and gen_bytes(m.gen) == sub(receipt, -4)
end

-- Number of further messages of the group that may be leased. A full group has at least one message in flight: the end of its
-- lease gives the group a turn, as the end of a pause does, and the time of its next token (see `rates.lua`).
local function room_of(no, group)
  if group == NO_GROUP then return math.huge end
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
    rooms[group] = math.min(limit - inside, tokens_of(no, group))
  end
  return rooms[group]
end

-- True if `flags` belong to a failed message that blocks the group, and so goes first.
local function leads(flags) return blocking and bit.band(flags, BLOCKS) > 0 end

-- True if a failed message blocks the group. An interrupted script leaves entries of messages that do not.
local function is_blocked(no, group)
  if not blocking then return false end
  while blocked[group] == nil do
    local index = base .. 'x:' .. no
    local first = redis.call('ZRANGE', index, '[' .. group .. '\31', '(' .. group .. '\32', 'BYLEX', 'LIMIT', '0', '1')[1]
    local m, why
    if first then m, why = read(no, sub(first, #group + 2)) end
    if not first or why == 'newer' or m and leads(m.flags) then
      blocked[group] = first ~= nil
    else
      redis.call('ZREM', index, first)
    end
  end
  return blocked[group]
end

-- The group of a ready message; nil if it cannot be read, or without one, except in fair order.
local function group_in(env, flags)
  if bit.band(flags, GROUP) == 0 then return fair and NO_GROUP or nil end
  local whole, _, _, _, group = pcall(fields, env, flags)
  return whole and group or nil
end

-- True if a ready message has to wait: the group is full or blocked, other messages of the group came before, or the groups take
-- turns.
local function has_to_wait(no, group, flags)
  if fair then return true end
  if leads(flags) then return room_of(no, group) < 1 end
  if queued[group] == nil then queued[group] = redis.call('ZSCORE', base .. 'k:' .. no, group) ~= false end
  if not queued[group] and not is_blocked(no, group) and room_of(no, group) > 0 then return false end
  queued[group] = true
  return true
end

-- Parks an entry behind the other entries of the group; a failed message that blocks the group goes to the front. The index comes
-- first, so that no parked entry is ever without a turn.
local function park(no, group, entry, flags)
  redis.call('ZADD', base .. 'k:' .. no, 'NX', now, group)
  if room_of(no, group) < 1 then await_token(no, group) end
  if room_of(no, group) > 0 and (leads(flags) or not is_blocked(no, group)) then
    if redis.call('ZADD', base .. 'n:' .. no, 'NX', next_turn(no), group) == 1 then redis.call('SPUBLISH', base .. 'ready', '') end
    -- In fair order the turns of this call are still to come.
    if not fair then come_back(0) end
  end
  local list = base .. 'p:' .. no .. ':' .. group
  if leads(flags) then redis.call('LPUSH', list, entry) else redis.call('RPUSH', list, entry) end
end
