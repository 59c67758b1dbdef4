-- reserve/leased_head: builds a leased message's head, except the last two bytes (maximum attempts).
--
-- NEEDS    sub
-- GIVES    leased_head

local function leased_head(env, gen, until_bytes)
  local counts = sub(env, 25, 30)
  if counts == '\0\0\0\0\0\0' then
    counts = '\0\0\0\1\0\1'
  else
    local delivery, attempts = struct.unpack('>I4I2', counts)
    counts = struct.pack('>I4I2', delivery + 1, attempts + 1)
  end
  return '\1\3' .. sub(env, 3, 4) .. gen .. sub(env, 9, 16) .. until_bytes .. counts
end
