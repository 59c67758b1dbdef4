-- The end of a message: removes it from its indexes, and replaces its body by a marker while its topic remembers this
-- outcome, or by nothing.

local function generated(id) return #id == 16 and string.byte(id) < 32 end

-- How long the topic of `m` remembers this outcome, in ms.
local function remembered_ms(m, outcome)
  if outcome == 'cancelled' then return policy(m.no, 'remember_cancelled_ms') end
  return policy(m.no, generated(m.id) and 'remember_generated_ms' or 'remember_own_ms')
end

-- Call once `m` is over: leftovers of an index that cannot be written are stale.
local function leave_indexes(m, group, expires)
  local name = m.no .. ':' .. m.id
  if expires then redis.pcall('ZREM', base .. 'expiries', name) end
  if group then redis.pcall('ZREM', base .. 'g:' .. group, name) end
end

-- Ends `m`. The caller removes the message from its place afterwards: an interrupted script then leaves a stale entry,
-- never a message without an entry.
local function finish(m, outcome)
  -- First: a message with unreadable fields is not over, but malformed.
  local group, expires = group_and_expiry(m)
  local freed_group = turn_behind(m)
  local key, remember = base .. 'm:' .. m.no .. ':' .. m.id, remembered_ms(m, outcome)
  if remember > 0 then end_marker(m, remember) end
  if m.state == DEAD then redis.call('HDEL', base .. 'w:' .. m.no, m.id) end
  if remember == 0 then
    redis.call('UNLINK', key)
  else
    local hash = bit.band(m.flags, HASH)
    redis.call('SET', key, struct.pack(HEAD, FORMAT, OUTCOME[outcome], hash, m.gen, m.due, now, m.delivery,
      m.attempt, m.max) .. (hash > 0 and string.sub(m.env, 33, 40) or ''))
  end
  leave_indexes(m, group, expires)
  unblock(m, freed_group)
  count(outcome, m.no, 1)
  note(m.no, m.id, outcome)
end
