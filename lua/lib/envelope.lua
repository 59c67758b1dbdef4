-- The envelope: the first 32 bytes (frozen for ever), and the optional fields that scripts look at.
-- docs/protocol.md has it byte by byte.
local HEAD, FORMAT = '>BBI2I4I8I8I4I2I2', 1
-- A stored message is PENDING, LEASED, DEAD or over. The pump reads no envelope, so a pending one does not say
-- whether it is delayed or ready: it is delayed while its bucket has it. Answers say READY.
local PENDING, READY, LEASED, DEAD = 1, 2, 3, 4
local STATE = { 'delayed', 'ready', 'leased', 'dead', 'delivered', 'cancelled', 'expired', 'purged' }
local OUTCOME = { delivered = 5, cancelled = 6, expired = 7, purged = 8 }
local HASH, EXPIRES, BACKOFF, GROUP, HEADERS, ZSTD, DOOMED, REASON = 1, 2, 4, 8, 16, 32, 64, 128
-- Its expiry is its topic's, so long after the due time: it moves where that is rescheduled.
local RELATIVE = 256
local INDEXED = EXPIRES + GROUP

local function gen_bytes(g) return struct.pack('>I4', g) end

-- The optional fields: hash, expiry in ms, back-off, group, and where the rest begins.
local function fields(env, flags)
  local at, hash, expires, backoff, group = 33, nil, nil, nil, nil
  if bit.band(flags, HASH) > 0 then hash, at = string.sub(env, at, at + 7), at + 8 end
  if bit.band(flags, EXPIRES) > 0 then expires, at = struct.unpack('>I8', env, at) end
  if bit.band(flags, BACKOFF) > 0 then backoff, at = struct.unpack('Bc0', env, at) end
  if bit.band(flags, GROUP) > 0 then group, at = struct.unpack('Bc0', env, at) end
  return hash, expires, backoff, group, at
end

-- A message as a table, or nil and why not: missing | malformed | newer.
local function read(no, id)
  local env = redis.call('MGET', base .. 'm:' .. no .. ':' .. id)[1]
  if not env then return nil, 'missing' end
  if #env < 32 then return nil, 'malformed' end
  local m = { no = no, id = id, env = env }
  m.format, m.state, m.flags, m.gen, m.due, m.at, m.delivery, m.attempt, m.max = struct.unpack(HEAD, env)
  if m.format > FORMAT then return nil, 'newer' end
  if m.format < FORMAT or not STATE[m.state] then return nil, 'malformed' end
  return m
end

-- A message's head as its fields say.
local function head_of(m)
  return struct.pack(HEAD, FORMAT, m.state, m.flags, m.gen, m.due, m.at, m.delivery, m.attempt, m.max)
end

-- Writes a message's head back over the old one; the rest of the envelope stays.
local function write_head(m) redis.call('SETRANGE', base .. 'm:' .. m.no .. ':' .. m.id, '0', head_of(m)) end
