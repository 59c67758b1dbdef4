-- Messages in flight, and messages that fail, in topics that limit their groups: see `turn.lua`.
local limits, blocks = {}, {}

-- The group of `m` if its topic limits groups.
local function limited_group(m)
  if bit.band(m.flags, GROUP) == 0 then return nil end
  if limits[m.no] == nil then
    local terms = redis.call('HMGET', base .. 't:' .. m.no, 'grouped', 'group_failed')
    limits[m.no], blocks[m.no] = terms[1], terms[2] == 'block'
  end
  if not limits[m.no] then return nil end
  local _, _, _, group = fields(m.env, m.flags)
  return group
end

-- Gives the group of `m` a turn. Call before ending the lease of `m`: a turn too many is dropped, a missing one would leave
-- the parked messages where they are.
local function turn_after(m)
  local group = limited_group(m)
  if group then give_turn(m.no, group) end
end

-- Lets `m`, which failed, block its group if its topic asks for it. Call before `m` moves, which writes the flag: an entry of a
-- message without the flag blocks nothing. Equal scores keep the entries of a group together.
local function block_group(m)
  local group = limited_group(m)
  if not group or not blocks[m.no] then return end
  redis.call('ZADD', base .. 'x:' .. m.no, '0', group .. '\31' .. m.id)
  m.flags = bit.bor(m.flags, BLOCKS)
end

-- Notes that the message of a receipt is no longer in flight. Call last: until then the group has too little room.
local function land(m, receipt)
  local group = limited_group(m)
  if group then redis.pcall('ZREM', base .. 'f:' .. m.no .. ':' .. group, receipt) end
end
