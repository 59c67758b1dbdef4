-- Messages for display.

-- The flags of the hindrances of a ready message: others of the group are parked and the group has no turn, the group is paused, or
-- another message failed and blocks the group.
local function held_by_group(m)
  if bit.band(m.flags, GROUP) == 0 then return 0 end
  local whole, _, _, _, group = pcall(fields, m.env, m.flags)
  if not whole then return 0 end
  if type(redis.pcall('ZSCORE', base .. 'q:' .. m.no, group)) == 'string' then return HELD + PAUSED end
  if redis.pcall('HGET', base .. 't:' .. m.no, 'group_failed') == 'block' then
    if bit.band(m.flags, BLOCKS) > 0 then return 0 end
    local first = redis.pcall('ZRANGE', base .. 'x:' .. m.no, '[' .. group .. '\31', '(' .. group .. '\32', 'BYLEX', 'LIMIT', 0, 1)
    if first[1] then return HELD + BLOCKED end
  end
  local is_parked = type(redis.pcall('ZSCORE', base .. 'k:' .. m.no, group)) == 'string'
  return is_parked and not redis.pcall('ZSCORE', base .. 'n:' .. m.no, group) and HELD or 0
end

-- A message for display: its envelope with the actual state (READY where ready, with HELD while its group holds it), HELD if a
-- successor waits behind it, and the reason of a dead letter at the end; its gen and its state; nil if missing. A key of another
-- type is shown as a malformed envelope.
local function shown(no, id)
  local env = whole_of(no, id)
  local m, why = decode(no, id, env)
  if why == 'missing' then return redis.call('EXISTS', base .. 'm:' .. no .. ':' .. id) == 1 and '\0' or nil end
  if not m then return env end
  local state, flags, last = m.state, m.flags, ''
  local own, successor = parts_of(env)
  local reason = state == DEAD and redis.pcall('HGET', base .. 'w:' .. no, id)
  if type(reason) == 'string' then
    flags, last = bit.bor(flags, REASON), reason .. struct.pack('>I2', #reason)
  elseif successor then
    flags = bit.bor(flags, HELD)
  elseif state == PENDING and not is_delayed(m) then
    state, flags = READY, bit.bor(flags, held_by_group(m))
  end
  return string.char(FORMAT, state) .. struct.pack('>I2', flags) .. string.sub(own, 5) .. last, m.gen, state
end

-- Maximum bytes of envelopes per page, before the last envelope: more would delay all other callers.
local MOST_PAGE_BYTES = 524288
