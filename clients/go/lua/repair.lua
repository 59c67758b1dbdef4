#!lua flags=allow-oom
-- repair: repairs findings whose fault still exists.
--
-- MOVES    in no place -> DELAYED | READY; malformed -> DEAD; others regain their entries
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, then 3 a finding (1 to 500): kind, index ("m" for a message), name (from `audit` and
--          `audit_index`; kind no_place for a message that audit calls ready and the queue lacks)
-- RETURNS  one answer a finding: mended | sound (the fault no longer exists) | failed <why>
-- COST     O(log n) a finding
--# include now, limits, arguments, registry, shard, defaults, policy, stats, nearest, alarm, gen, format, fields, envelope, hour, bucket, ready, fair, push, note, ends, turn, finish, place, kill, fault, stranded, each

arguments('repair', 1, 3)
gens(#ARGV)

local function add(index, score, member)
  if RINGS[index] then alarm(index, score) end
  redis.call('ZADD', base .. index, score, member)
end

-- Repairs of a message's faults. A lost lease gets the end recorded in the message, at most a lease from now: then the
-- pump gives the message back.
local MESSAGE = {
  no_lease = function(m) add('leases', math.min(m.at, now + policy(m.no, 'lease_ms')), receipt_of(m)) end,
  no_dead_entry = function(m) add('d:' .. m.no, m.at, member_of(m)) end,
  no_marker_entry = function(m) add('markers', now + remembered_ms(m, STATE[m.state]), name_of(m)) end,
  no_group_entry = function(m) add('g:' .. group_and_expiry(m), m.due, name_of(m)) end,
  no_expiry_entry = function(m) add('expiries', select(2, group_and_expiry(m)), name_of(m)) end,
  malformed = function(m) kill_malformed(m.no, m.id) end,
}

local function has_fault(m, kind)
  for _, fault in ipairs(faults_of(m)) do if fault == kind then return true end end
  return false
end

local function mend_message(kind, name)
  local no, id = name_parts(name)
  local m, why = read(no, id)
  if why == 'malformed' then m = { no = no, id = id } elseif m and not has_fault(m, kind) then m = nil end
  if not m or why == 'malformed' and kind ~= 'malformed' then return 'sound' end
  MESSAGE[kind](m)
  return 'mended'
end

-- Puts a message without a place where its due time belongs, under a new gen: should its old entry reappear, that entry
-- is stale. The message counted as ready.
local function mend_place(receipt)
  local no, rest = name_parts(receipt)
  local m = read(no, string.sub(rest, 1, -5))
  if not m or m.state ~= PENDING or receipt_of(m) ~= receipt or is_delayed(m) then return 'sound' end
  note(no, m.id, 'repaired %s', place(m, m.due))
  count('ready', no, -1)
  return 'mended'
end

-- Deletes the reason of a dead letter that is gone.
local function drop_reason(no, id)
  local m = read(no, id)
  if not m or m.state ~= DEAD then redis.call('HDEL', base .. 'w:' .. no, id) end
end

local INDEX = {
  stale_entry = function(index, entry)
    if not leads_nowhere(index, entry) then return 'sound' end
    if redis.call('ZREM', base .. index, entry) == 0 then return 'sound' end
    if kind_of(index) == 'd' then drop_reason(message_of(index, entry)) end
    -- As in `unplace`: the next entry may be due in years.
    if redis.call('EXISTS', base .. index) == 0 then redis.pcall('ZREM', base .. 'alarms', index) end
    return 'mended'
  end,
  no_alarm = function(index)
    local first = silent_since(index)
    if not first then return 'sound' end
    if string.find(index, '^e:') then add('ends', first, index) else alarm(index, first) end
    return 'mended'
  end,
  no_shift_end = function(index)
    if not is_endless(index) then return 'sound' end
    add('markers', now + 3600000, index)
    return 'mended'
  end,
  no_turn = function(index)
    if not is_stranded(index) then return 'sound' end
    local no, group = string.match(index, '^p:(%d+):(.*)$')
    add('k:' .. no, now, group)
    give_turn(no, group)
    -- Else no reserve looks at turns.
    redis.call('HSET', base .. 't:' .. no, 'grouped', '1')
    return 'mended'
  end,
}

local answers = each(2, 3, function(kind, index, name)
  if kind == 'no_place' then return mend_place(name) end
  if MESSAGE[kind] then return mend_message(kind, name) end
  if not INDEX[kind] then return 'failed ' .. kind .. ' is not mended by a script' end
  return INDEX[kind](index, name)
end)
--# include wake
if events then
--# include record
end
return answers
