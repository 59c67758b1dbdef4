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
  if m.format > FORMAT then return nil, 'newer' end
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
  return struct.pack(HEAD, FORMAT, m.state, m.flags, m.gen, m.due, m.at, m.delivery, m.attempt, m.max)
end

-- Writes a message's head over the old head; the rest of the envelope stays.
local function write_head(m) redis.call('SETRANGE', base .. 'm:' .. m.no .. ':' .. m.id, '0', head_of(m)) end
