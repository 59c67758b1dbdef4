-- Stored messages: reading, and writing back the head.
local STATE = { 'delayed', 'ready', 'leased', 'dead', 'delivered', 'cancelled', 'expired', 'purged' }
local OUTCOME = { delivered = 5, cancelled = 6, expired = 7, purged = 8 }

local function gen_bytes(g) return struct.pack('>I4', g) end

-- Decodes the bytes of an envelope (false if missing): a message as a table, or nil and the reason: missing | malformed
-- | newer.
local function decode(no, id, env)
  if not env then return nil, 'missing' end
  if #env < 32 then return nil, 'malformed' end
  local m = { no = no, id = id, env = env }
  m.format, m.state, m.flags, m.gen, m.due, m.at, m.delivery, m.attempt, m.max = struct.unpack(HEAD, env)
  if m.format > WITH_SUCCESSOR or m.format == WITH_SUCCESSOR and m.state ~= LEASED then return nil, 'newer' end
  if m.format < FORMAT or not STATE[m.state] then return nil, 'malformed' end
  if bit.band(m.flags, LATER_FLAGS) > 0 then return nil, 'newer' end
  return m
end

-- The start of a key's value, as far as the optional fields before the headers may reach: a body may have a MiB. False
-- without a value, or for another type. Any other fault ends the item: reading it as missing would drop its entry.
local function start_of(key)
  local start = redis.pcall('GETRANGE', key, '0', '559')
  if type(start) == 'table' then
    if string.sub(start.err, 1, 9) ~= 'WRONGTYPE' then error(start) end
    return false
  end
  return (start ~= '' or redis.call('EXISTS', key) == 1) and start
end

-- A whole message, for scripts that copy or show it; false if missing.
local function whole_of(no, id) return redis.call('MGET', base .. 'm:' .. no .. ':' .. id)[1] end

-- Reads a message without its payload, with the results of `decode`.
local function read(no, id) return decode(no, id, start_of(base .. 'm:' .. no .. ':' .. id)) end

-- Encodes a message's head.
local function head_of(m)
  return struct.pack(HEAD, m.format or FORMAT, m.state, m.flags, m.gen, m.due, m.at, m.delivery, m.attempt, m.max)
end

-- Writes a message's head over the old head; the rest of the envelope stays, unless it has changed.
local function write_head(m)
  local key = base .. 'm:' .. m.no .. ':' .. m.id
  if m.changed then
    redis.call('SET', key, head_of(m) .. string.sub(m.env, 33))
  else
    redis.call('SETRANGE', key, '0', head_of(m))
  end
end

-- Parts a stored string into the envelopes of a message and of its successor (nil without). A string of both ends in the length
-- of the second, in 4 bytes.
local function parts_of(env)
  if string.byte(env) ~= WITH_SUCCESSOR then return env end
  local own = #env - 4 - struct.unpack('>I4', string.sub(env, -4))
  local is_whole = own >= 32 and own <= #env - 36
  return string.char(FORMAT) .. string.sub(env, 2, is_whole and own or -1), is_whole and string.sub(env, own + 1, -5) or nil
end

-- Takes the successor's envelope from `m`, nil without. The next `write_head` writes the message alone.
local function take_successor(m)
  if m.format ~= WITH_SUCCESSOR then return nil end
  local successor
  m.env, successor = parts_of(whole_of(m.no, m.id))
  m.format, m.changed = FORMAT, true
  return successor
end
