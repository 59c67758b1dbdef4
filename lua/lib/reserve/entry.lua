-- reserve/entry: judges an entry of a queue, and settles or defers an entry that is not delivered.
--
-- NEEDS    bucket_add, bucket_of, buried, byte, dropped, expired, finish, is_whole, kill_malformed, now, read, sub,
--          EXPIRES, FORMAT, HASH, LATER_FLAGS, PENDING, STATE
-- CHANGES  buried, dropped, expired
-- GIVES    drop, look, set_aside

-- The kind of an entry's envelope: ready (to be leased), stale, expired, malformed, newer. Nothing in this function may
-- fail.
local function look(entry, env)
  if not env then return 'stale' end
  if #env < 32 then return 'malformed' end
  local format, state, high, low = byte(env, 1, 4)
  local is_its_own = sub(env, 5, 8) == sub(entry, -11, -8)
  if format > FORMAT then return is_its_own and 'newer' or 'stale' end
  if format < FORMAT or not STATE[state] then return 'malformed' end
  if state ~= PENDING or not is_its_own then return 'stale' end
  local flags = high * 256 + low
  if bit.band(flags, LATER_FLAGS) > 0 then return 'newer' end
  if flags > HASH and bit.band(flags, EXPIRES) > 0 then
    local at = bit.band(flags, HASH) > 0 and 41 or 33
    if #env < at + 7 then return 'malformed' end
    if struct.unpack('>I8', env, at) <= now then return 'expired' end
  end
  return 'ready', flags
end

-- Settles an entry that will not be delivered. Returns true if it counted as ready until now.
local function drop(no, id, word)
  if word == 'stale' then
    dropped = dropped + 1
    return false
  end
  local m = word == 'expired' and read(no, id)
  if m and is_whole(m) then
    finish(m, 'expired')
    expired = expired + 1
  else
    kill_malformed(no, id)
    buried = buried + 1
  end
  return true
end

-- Moves a blocked entry from the queue, which could otherwise never become empty, into its message's bucket, to return
-- in ten seconds.
local function set_aside(no, entry, env)
  local due = #env < 16 and now or struct.unpack('>I8', env, 9)
  bucket_add(bucket_of(no, due), now + 10000, { now + 10000, sub(entry, 1, -8) })
end
