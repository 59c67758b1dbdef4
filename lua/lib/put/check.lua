-- put/check: checks the envelope and the id of a message.
--
-- NEEDS    fields, generated, is_backoff, is_printable, readable, sub
-- GIVES    check_fields, misnamed

-- Refuses an envelope with unreadable optional fields.
local function check_fields(env, flags)
  local _, _, backoff, _, rest = fields(env, flags)
  if rest > #env + 1 then error('fields are cut short') end
  if backoff and not is_backoff(backoff) then error('back-off') end
end

-- Why a stored id breaks the rules, or nil: an own id ends in its group, or no call by id would find the message.
local function misnamed(id, group)
  if group and not is_printable(group, 128) then return 'refused group ' .. readable(group) end
  if generated(id) then return nil end
  local own = id
  if group then
    if #id < #group + 2 or sub(id, -1 - #group) ~= '\31' .. group then return 'refused id without its group' end
    own = sub(id, 1, -2 - #group)
  end
  return not is_printable(own, 128) and 'refused id ' .. readable(own) or nil
end
