-- What is wrong with a message, with an entry of an index, or with an index. Each is judged in one script, so nothing
-- that is under way looks wrong. An index of the wrong type is judged by itself, not by those that should be in it.

local function name_of(m) return m.no .. ':' .. m.id end
local function member_of(m) return m.id .. gen_bytes(m.gen) end
local function receipt_of(m) return m.no .. ':' .. member_of(m) end

-- Topic number and id of "<no>:<id>"; empty where it is no such name.
local function name_parts(name)
  local no, id = string.match(name, '^(%d+):(.*)$')
  return no or '', id or ''
end

local function has_entry(index, member) return redis.pcall('ZSCORE', base .. index, member) ~= false end

-- The group and the expiry of `m`, each nil where it has none. Raises where the optional fields cannot be read.
local function group_and_expiry(m)
  if bit.band(m.flags, INDEXED) == 0 then return end
  local _, expires, _, group = fields(m.env, m.flags)
  return group, expires
end

-- Whether a marker will never be forgotten: its time is over, and so is that of each list that could have it, by the longest
-- time that its topic ever remembered an id. A list is not searched.
local function is_endless_marker(m)
  if has_entry('markers', name_of(m)) then return false end
  local topic = redis.pcall('HMGET', base .. 't:' .. m.no, 'name', 'remembered_ms')
  local longest = math.max(tonumber(topic[2]) or 0, REMEMBER_CANCELLED_MS)
  local until_ms = m.at + longest + math.ceil(longest / 8)
  if topic.err or topic[1] and until_ms >= now then return false end
  -- Of a topic that was forgotten, nothing is known.
  return redis.pcall('ZCOUNT', base .. 'ends', '-inf', topic[1] and until_ms or '+inf') == 0
end

-- What should lead to `m` and does not, as kinds of fault. Whether a ready one is in its queue is not searched for.
local function faults_of(m)
  local found = {}
  local function needs(index, member, fault)
    if not has_entry(index, member) then found[#found + 1] = fault end
  end
  if m.state == DEAD then needs('d:' .. m.no, member_of(m), 'no_dead_entry') end
  if m.state > DEAD and is_endless_marker(m) then found[1] = 'no_marker_entry' end
  if m.state >= DEAD then return found end
  local whole, group, expires = pcall(group_and_expiry, m)
  if not whole or m.state == READY then return { 'malformed' } end
  if m.state == LEASED then needs('leases', receipt_of(m), 'no_lease') end
  if group then needs('g:' .. group, name_of(m), 'no_group_entry') end
  -- What expired while it was leased is not in the index any more: it expires when it is given back. Nor is what never
  -- expires.
  if expires and expires < LAST_MS and m.state == PENDING then needs('expiries', name_of(m), 'no_expiry_entry') end
  return found
end

-- What the entries of each index stand for: the message's number and id, and its gen where the entry has one.
local function named(_, member) return name_parts(member) end
local function of_topic(index, member)
  return string.match(index, '^%a:(%d+)'), string.sub(member, 1, -5), string.sub(member, -4)
end
local ENTRY = {
  b = of_topic,
  d = of_topic,
  leases = function(_, member)
    local no, rest = name_parts(member)
    return no, string.sub(rest, 1, -5), string.sub(rest, -4)
  end,
  expiries = named,
  markers = named,
  g = named,
}

-- Whether the message is in the state that an entry of the index stands for.
local BELONGS = {
  b = function(m, index) return m.state == PENDING and bucket_of(m.no, m.due) == index end,
  d = function(m) return m.state == DEAD end,
  leases = function(m) return m.state == LEASED end,
  expiries = function(m) return m.state <= LEASED end,
  markers = function(m) return m.state > DEAD end,
  g = function(m, index) return m.state <= LEASED and group_and_expiry(m) == string.sub(index, 3) end,
}

local function kind_of(index) return string.match(index, '^%a*') end

-- The message that an entry stands for, as `ENTRY` has it; nil where it stands for a key.
local function message_of(index, member)
  local kind = kind_of(index)
  local is_key = kind == 'ends' or kind == 'markers'
    and (string.find(member, '^shift:') or string.find(member, '^h:%d+$'))
  if not is_key and ENTRY[kind] then return ENTRY[kind](index, member) end
end

-- Whether an entry of that gen, if it has one, does not lead to `m`, or why there is no `m`. What cannot be read is left to
-- the script that meets it.
local function is_astray(index, g, m, why)
  if not m then return why == 'missing' end
  if g and g ~= gen_bytes(m.gen) then return true end
  local whole, belongs = pcall(BELONGS[kind_of(index)], m, index)
  return whole and not belongs
end

-- Whether an entry leads nowhere.
local function leads_nowhere(index, member)
  local no, id, g = message_of(index, member)
  if no then return is_astray(index, g, read(no, id)) end
  local kind = kind_of(index)
  return (kind == 'ends' or kind == 'markers') and redis.call('EXISTS', base .. member) == 0
end

local RINGS = { b = true, leases = true, expiries = true, markers = true, ends = true }

-- When the first entry of an index is due, where no alarm rings for it by then; nil where one does. One that rings
-- within ten seconds is set right by the pump itself: it put off what it could not move.
local function silent_since(index)
  local list_ends = string.match(index, '^e:(%d+)$')
  if list_ends then
    return redis.call('EXISTS', base .. index) == 1 and not has_entry('ends', index) and tonumber(list_ends) or nil
  end
  if not RINGS[kind_of(index)] then return nil end
  local first = redis.call('ZRANGE', base .. index, '0', '0', 'WITHSCORES')[2]
  local rings = first and redis.call('ZSCORE', base .. 'alarms', index)
  if not first or rings and tonumber(rings) <= math.max(tonumber(first), now + 10000) then return nil end
  return tonumber(first)
end

-- Whether the cursor of a group's shift will never be forgotten, so that no other shift can begin.
local function is_endless(index)
  return string.find(index, '^shift:') ~= nil and redis.call('EXISTS', base .. index) == 1
    and not has_entry('markers', index)
end
