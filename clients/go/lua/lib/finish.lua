-- The end of a message: removes it from its indexes, and replaces its body by a marker while its topic remembers this
-- outcome, or by nothing.

local function generated(id) return #id == 16 and string.byte(id) < 32 end

-- How long the topic of `m` remembers this outcome, in ms.
local function remembered_ms(m, outcome)
  if outcome == 'cancelled' then return policy(m.no, 'remember_cancelled_ms') end
  return policy(m.no, generated(m.id) and 'remember_generated_ms' or 'remember_own_ms')
end

-- Before any change, refuses an index of `m` with the wrong type.
local function index_check(m)
  if bit.band(m.flags, INDEXED) == 0 then return end
  local _, expires, _, group = fields(m.env, m.flags)
  if expires then must_be('zset', 'expiries') end
  if group then must_be('zset', 'g:' .. group) end
end

local function leave_indexes(m)
  if bit.band(m.flags, INDEXED) == 0 then return end
  local _, expires, _, group = fields(m.env, m.flags)
  local name = m.no .. ':' .. m.id
  if expires then redis.call('ZREM', base .. 'expiries', name) end
  if group then redis.call('ZREM', base .. 'g:' .. group, name) end
end

-- Ends `m`. The caller removes the message from its place afterwards: an interrupted script then leaves a stale entry,
-- never a message without an entry.
local function finish(m, outcome)
  local key, remember = base .. 'm:' .. m.no .. ':' .. m.id, remembered_ms(m, outcome)
  if remember > 0 then end_check(remember) end
  index_check(m)
  if m.state == DEAD then
    must_be('hash', 'w:' .. m.no)
    redis.call('HDEL', base .. 'w:' .. m.no, m.id)
  end
  if remember == 0 then
    redis.call('UNLINK', key)
  else
    local hash = bit.band(m.flags, HASH)
    end_marker(m, remember)
    redis.call('SET', key, struct.pack(HEAD, FORMAT, OUTCOME[outcome], hash, m.gen, m.due, now, m.delivery,
      m.attempt, m.max) .. (hash > 0 and string.sub(m.env, 33, 40) or ''))
  end
  leave_indexes(m)
  count(outcome, m.no, 1)
  note(m.no, m.id, outcome)
end
