-- Moving messages to the dead letters.

-- Writes the head of `m`, and the reason (at most 1,000 bytes) behind the body, in one command: interrupted in between, a
-- payload with a reason at its end would be delivered. The body is neither read nor copied. The reason of an earlier death is
-- overwritten; a shorter reason is padded with spaces, because no command shortens a string.
local function write_reason(m, reason)
  local key, flags = base .. 'm:' .. m.no .. ':' .. m.id, m.flags
  local length = redis.call('STRLEN', key)
  local from = length
  if bit.band(flags, REASON) > 0 then
    local last = redis.call('GETRANGE', key, '-2', '-1')
    from = math.max(length - 2 - struct.unpack('>I2', last), 32)
    reason = reason .. string.rep(' ', length - from - 2 - #reason)
  end
  m.flags = bit.bor(flags, REASON)
  local words = {}
  local function set(at, text)
    local i = 1
    while i <= #text do
      local n, width = #words, #text - i >= 3 and 4 or 1
      words[n + 1], words[n + 2], words[n + 3] = 'SET', width == 4 and 'u32' or 'u8', 8 * (at + i - 1)
      words[n + 4] = struct.unpack(width == 4 and '>I4' or 'B', text, i)
      i = i + width
    end
  end
  set(0, head_of(m))
  set(from, reason .. struct.pack('>I2', #reason))
  redis.call('BITFIELD', key, unpack(words))
end

-- Moves `m` to the dead letters, ordered by time of death; `write` writes the body with the reason.
local function kill(m, reason, write)
  must_be('zset', 'd:' .. m.no)
  index_check(m)
  m.state, m.at, m.gen = DEAD, now, gen(bit.band(m.flags, INDEXED) > 0)
  redis.call('ZADD', base .. 'd:' .. m.no, now, m.id .. gen_bytes(m.gen))
  write = write or write_reason
  write(m, string.sub(reason, 1, 1000))
  leave_indexes(m)
  count('buried', m.no, 1)
  note(m.no, m.id, 'buried %s', string.sub(reason, 1, 200))
end

-- Turns bytes that are not an envelope into the payload of a dead letter, with the reason.
local function kill_malformed(no, id)
  must_be('zset', 'd:' .. no)
  local m = { no = no, id = id, flags = 0, due = now, delivery = 0, attempt = 0, max = 0 }
  local body = whole_of(no, id)
  kill(m, 'malformed envelope', function(_, reason)
    m.flags = REASON
    redis.call('SET', base .. 'm:' .. no .. ':' .. id, head_of(m) .. body .. reason .. struct.pack('>I2', #reason))
  end)
end

-- True if the optional fields are readable.
local function is_whole(m) return (pcall(fields, m.env, m.flags)) end
