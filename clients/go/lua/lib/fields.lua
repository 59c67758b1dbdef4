-- The optional fields: hash, expiry in ms, back-off, group, the offset of the rest, the time of the first put, and the
-- lifetime in ms.
local function fields(env, flags)
  local at, hash, expires, backoff, group, first, lifetime = 33, nil, nil, nil, nil, nil, nil
  if bit.band(flags, HASH) > 0 then hash, at = string.sub(env, at, at + 7), at + 8 end
  if bit.band(flags, EXPIRES) > 0 then expires, at = struct.unpack('>I8', env, at) end
  if bit.band(flags, BACKOFF) > 0 then backoff, at = struct.unpack('Bc0', env, at) end
  if bit.band(flags, GROUP) > 0 then group, at = struct.unpack('Bc0', env, at) end
  if bit.band(flags, LIFETIME) > 0 then lifetime, at = struct.unpack('>I8', env, at) end
  if bit.band(flags, FIRST) > 0 then first, at = struct.unpack('>I8', env, at) end
  return hash, expires, backoff, group, at, first, lifetime
end

-- The group and the expiry of `m`, each nil if missing. Raises an error for unreadable optional fields.
local function group_and_expiry(m)
  if bit.band(m.flags, INDEXED) == 0 then return end
  local _, expires, _, group = fields(m.env, m.flags)
  return group, expires
end
