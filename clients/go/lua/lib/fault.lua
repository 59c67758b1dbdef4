-- Faults of a message, of an index entry, or of an index. Each is judged within one script, so work in progress never
-- looks wrong. An index of the wrong type is judged by itself, not through its missing entries.

local function name_of(m) return m.no .. ':' .. m.id end
local function member_of(m) return m.id .. gen_bytes(m.gen) end
local function receipt_of(m) return m.no .. ':' .. member_of(m) end

-- Topic number and id of "<no>:<id>"; empty for other texts.
local function name_parts(name)
  local no, id = string.match(name, '^(%d+):(.*)$')
  return no or '', id or ''
end

local function has_entry(index, member) return redis.pcall('ZSCORE', base .. index, member) ~= false end

-- True if a marker will never be forgotten: its own time has passed, and so has each list that could hold it, given the
-- longest memory ever configured. Lists are not searched.
local function is_endless_marker(m)
  if has_entry('markers', name_of(m)) then return false end
  local topic = redis.pcall('HMGET', base .. 't:' .. m.no, 'name', 'remembered_ms')
  local longest = math.max(tonumber(topic[2]) or 0, REMEMBER_CANCELLED_MS)
  local until_ms = m.at + longest + math.ceil(longest / 8)
  if topic.err or topic[1] and until_ms >= now then return false end
  -- The settings of a forgotten topic are unknown.
  return redis.pcall('ZCOUNT', base .. 'ends', '-inf', topic[1] and until_ms or '+inf') == 0
end

-- The missing entries of `m`, as kinds of fault. The ready queue is not searched.
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
  -- A message that expired while leased left the index, and expires on release. A message that never expires is not in
  -- the index.
  if expires and expires < LAST_MS and m.state == PENDING then needs('expiries', name_of(m), 'no_expiry_entry') end
  return found
end

-- Decodes the entries of each index: the message's number and id, and the gen if the entry has one.
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
  x = function(index, member) return string.match(index, '^x:(%d+)'), string.match(member, '\31(.*)$') end,
}
ENTRY.f = ENTRY.leases

-- True if the message's state matches the index of an entry.
local BELONGS = {
  b = function(m, index) return m.state == PENDING and bucket_of(m.no, m.due) == index end,
  d = function(m) return m.state == DEAD end,
  leases = function(m) return m.state == LEASED end,
  expiries = function(m) return m.state <= LEASED end,
  markers = function(m) return m.state > DEAD end,
  g = function(m, index) return m.state <= LEASED and group_and_expiry(m) == string.sub(index, 3) end,
  f = function(m) return m.state == LEASED end,
  x = function(m) return bit.band(m.flags, BLOCKS) > 0 end,
}

local function kind_of(index) return string.match(index, '^%a*') end

-- The message of an entry, decoded by `ENTRY`; nil for an entry about a key.
local function message_of(index, member)
  local kind = kind_of(index)
  local is_key = kind == 'ends' or kind == 'markers'
    and (string.find(member, '^shift:') or string.find(member, '^h:%d+$'))
  if not is_key and ENTRY[kind] then return ENTRY[kind](index, member) end
end

-- True if an entry (with its gen, if any) does not lead to `m`; `why` is the reason without `m`. Unreadable messages
-- are left to the script that meets them.
local function is_astray(index, g, m, why)
  if not m then return why == 'missing' end
  if g and g ~= gen_bytes(m.gen) then return true end
  local whole, belongs = pcall(BELONGS[kind_of(index)], m, index)
  return whole and not belongs
end

-- True if an entry leads to no message.
local function leads_nowhere(index, member)
  local no, id, g = message_of(index, member)
  if no then return is_astray(index, g, read(no, id)) end
  local key = kind_of(index) == 'k' and 'p' .. string.sub(index, 2) .. ':' .. member or member
  return string.find(index, '^[emk]') and redis.call('EXISTS', base .. key) == 0
end

local RINGS = { b = true, leases = true, expiries = true, markers = true, ends = true }

-- Due time of an index's first entry, if no alarm rings by then; nil if an alarm does. The pump itself corrects an
-- alarm within ten seconds: it postponed blocked work.
local function silent_since(index)
  local list_ends = string.match(index, '^e:(%d+)$')
  if list_ends then
    return redis.call('EXISTS', base .. index) == 1 and not has_entry('ends', index) and tonumber(list_ends) or nil
  end
  if not RINGS[kind_of(index)] then return nil end
  local first = redis.call('ZRANGE', base .. index, '0', '0', 'WITHSCORES')[2]
  local rings = first and redis.pcall('ZSCORE', base .. 'alarms', index)
  if not first or type(rings) == 'table' or rings and tonumber(rings) <= math.max(tonumber(first), now + 10000) then return nil end
  return tonumber(first)
end

-- True if the cursor of a group's shift will never be forgotten, which would block all other shifts.
local function is_endless(index)
  return string.find(index, '^shift:') ~= nil and redis.call('EXISTS', base .. index) == 1
    and not has_entry('markers', index)
end
