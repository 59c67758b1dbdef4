-- Refuses the whole call, before its first write, if a key has the wrong type (F1: an error midway would keep earlier
-- writes).
local checked = {}
local function is(kind, key)
  if checked[key] then return true end
  local found = redis.call('TYPE', base .. key).ok
  checked[key] = found == kind or found == 'none'
  return checked[key], found
end

local function must_be(kind, key)
  local right, found = is(kind, key)
  if not right then error({ err = 'DQTYPE ' .. base .. key .. ' is a ' .. found .. ', not a ' .. kind }) end
end
