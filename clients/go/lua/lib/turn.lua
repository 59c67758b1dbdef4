-- Turns: a topic that limits its groups parks the messages of a full group in `p:<no>:<group>`. `k:<no>` has the groups with
-- parked messages, `f:<no>:<group>` the receipts of a group in flight, and `n:<no>` the groups whose turn has come: `reserve`
-- looks at these alone. `q:<no>` has the paused groups.
local limits = {}

-- The group of `m` if its topic limits groups.
local function limited_group(m)
  if bit.band(m.flags, GROUP) == 0 then return nil end
  if limits[m.no] == nil then limits[m.no] = redis.call('HGET', base .. 't:' .. m.no, 'grouped') end
  if not limits[m.no] then return nil end
  local _, _, _, group = fields(m.env, m.flags)
  return group
end

-- Gives a group a turn if it has parked messages, and wakes waiting consumers.
local function give_turn(no, group)
  if redis.call('ZSCORE', base .. 'k:' .. no, group) and redis.call('ZADD', base .. 'n:' .. no, 'NX', now, group) == 1 then
    local name = redis.pcall('HGET', base .. 't:' .. no, 'name')
    redis.call('SPUBLISH', base .. 'ready', type(name) == 'string' and name or '')
  end
end

-- Gives the group of `m` a turn. Call before ending the lease of `m`: a turn too many is dropped, a missing one would leave
-- the parked messages where they are.
local function turn_after(m)
  local group = limited_group(m)
  if group then give_turn(m.no, group) end
end

-- Notes that the message of a receipt is no longer in flight. Call last: until then the group has too little room.
local function land(m, receipt)
  local group = limited_group(m)
  if group then redis.pcall('ZREM', base .. 'f:' .. m.no .. ':' .. group, receipt) end
end
