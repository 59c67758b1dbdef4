-- Messages as they are stored: reading one, and writing its head back.
local STATE = { 'delayed', 'ready', 'leased', 'dead', 'delivered', 'cancelled', 'expired', 'purged' }
local OUTCOME = { delivered = 5, cancelled = 6, expired = 7, purged = 8 }

local function gen_bytes(g) return struct.pack('>I4', g) end

-- What the bytes of an envelope say, false for none: a message as a table, or nil and why not: missing | malformed | newer.
local function decode(no, id, env)
  if not env then return nil, 'missing' end
  if #env < 32 then return nil, 'malformed' end
  local m = { no = no, id = id, env = env }
  m.format, m.state, m.flags, m.gen, m.due, m.at, m.delivery, m.attempt, m.max = struct.unpack(HEAD, env)
  if m.format > FORMAT then return nil, 'newer' end
  if m.format < FORMAT or not STATE[m.state] then return nil, 'malformed' end
  return m
end

-- What scripts look at of the value of a key, as far as the optional fields before the headers may go: a body may have a MiB.
-- False where there is no value, or one of another type. Any other fault ends the item: read as missing, its entry would go.
local function start_of(key)
  local start = redis.pcall('GETRANGE', key, '0', '559')
  if type(start) == 'table' then
    if string.sub(start.err, 1, 9) ~= 'WRONGTYPE' then error(start) end
    return false
  end
  return (start ~= '' or redis.call('EXISTS', key) == 1) and start
end

-- All of a message, for those who write it elsewhere or show it; false where there is none.
local function whole_of(no, id) return redis.call('MGET', base .. 'm:' .. no .. ':' .. id)[1] end

-- Reads a message, without its payload: as `decode` tells it.
local function read(no, id) return decode(no, id, start_of(base .. 'm:' .. no .. ':' .. id)) end

-- A message's head as its fields say.
local function head_of(m)
  return struct.pack(HEAD, FORMAT, m.state, m.flags, m.gen, m.due, m.at, m.delivery, m.attempt, m.max)
end

-- Writes a message's head back over the old one; the rest of the envelope stays.
local function write_head(m) redis.call('SETRANGE', base .. 'm:' .. m.no .. ':' .. m.id, '0', head_of(m)) end
