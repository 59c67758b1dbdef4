-- pump/ends: forgets markers by the lists of `ends.lua`.
--
-- NEEDS    base, block, blocked, call, find, forgotten, is_large, now, rearm, starts_of, DEAD, FORMAT
-- CHANGES  blocked, forgotten
-- GIVES    pump_ends

-- Forgets the markers of a list's entries, except stale entries. Returns entries of a later format.
local function forget(entries)
  local byte, sub, bodies = string.byte, string.sub, base .. 'm:'
  local keys, gone, ended, later, topic, any_large = {}, {}, 0, {}, nil, false
  for i = 1, #entries do
    keys[i] = bodies .. sub(entries[i], 1, -5)
    -- A message may be in the marker's place.
    if not any_large and not (topic and find(entries[i], topic, 1, true) == 1) then
      topic = string.match(entries[i], '^[^:]*:') or ':'
      any_large = is_large(sub(topic, 1, -2))
    end
  end
  local markers = keys[1] and starts_of(keys, any_large) or keys
  for i = 1, #entries do
    local format, state, _, _, a, b, c, d = byte(markers[i] or '', 1, 8)
    if d and state > DEAD then
      -- Compares without a string per gen.
      local e, f, g, h = byte(entries[i], -4, -1)
      if d == h and c == g and b == f and a == e then
        if format == FORMAT then
          ended = ended + 1
          gone[ended] = keys[i]
        elseif format > FORMAT then
          later[#later + 1] = entries[i]
        end
      end
    end
  end
  if gone[1] then call('UNLINK', unpack(gone)) end
  forgotten = forgotten + ended
  return later
end

-- Handles the first `n` entries of the marker lists whose time has passed. Entries of a later format wait for ten
-- seconds in a separate list, and so does an unreadable list.
local function pump_ends(n)
  local ends, again = base .. 'ends', now + 10000
  local lists = redis.pcall('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', '0', '100')
  if lists.err then return block('ends') end
  for i = 1, #lists do
    local list = base .. lists[i]
    local entries = find(lists[i], '^e:%d+$') and redis.pcall('LRANGE', list, '0', n - 1) or {}
    local later = entries.err and {} or forget(entries)
    if later[1] then
      local name = string.format('e:%d', again)
      call('ZADD', ends, again, name)
      call('RPUSH', base .. name, unpack(later))
    end
    if entries[1] then call('LTRIM', list, #entries, '-1') end
    if entries.err or later[1] then blocked = blocked + 1 end
    n = n - #entries
    if n == 0 and call('EXISTS', list) == 1 then break end
    if entries.err then
      call('ZADD', ends, again, lists[i])
    else
      call('ZREM', ends, lists[i])
    end
    if n == 0 then break end
  end
  rearm('ends', call('ZRANGE', ends, '0', '0', 'WITHSCORES')[2])
end
