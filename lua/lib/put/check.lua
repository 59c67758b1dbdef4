-- put/check: checks the envelope and the id of a message.
--
-- NEEDS    fields, generated, is_backoff, is_printable, readable, sub, LAST_MS, LIFETIME
-- GIVES    check_fields, lifetime_of, misnamed

-- Refuses an envelope with unreadable optional fields.
local function check_fields(env, flags)
  local _, expires, backoff, _, rest, _, lifetime = fields(env, flags)
  if rest > #env + 1 then error('fields are cut short') end
  if backoff and not is_backoff(backoff) then error('back-off') end
  if lifetime and (expires or lifetime == 0 or lifetime > LAST_MS) then error('lifetime') end
end

-- The message's own time from its due time to its expiry; nil without.
local function lifetime_of(env, flags)
  return flags >= LIFETIME and select(7, fields(env, flags)) or nil
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
