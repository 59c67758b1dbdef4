#!lua flags=no-writes
-- audit_index: checks indexes of a shard, and their entries, in steps.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, limit (1 to 500 entries), then 4 an index (1 to 500): key without its base, score, member (of the
--          last checked entry; "" and "" at first), all | itself (no entries)
-- RETURNS  number of indexes checked to the end, position in the next index (score and member), number of checked
--          entries, then 3 a finding: index, kind, entry
--            kind   stale_entry (the message is gone, or elsewhere) | of the index itself, with an empty entry:
--                   no_alarm (no alarm rings when the first entry is due) | no_shift_end (a shift's cursor without
--                   an end) | no_turn (parked messages of a group that would wait for ever) | wrong_type
-- COST     O(log n) an index, and a read of the envelope an entry
--# include now, limits, arguments, registry, shard, defaults, nearest, alarm, format, fields, envelope, starts, hour, page, fault, stranded

arguments('audit_index', 2, 4)
local limit = number('the limit', ARGV[2], 1, MOST_IDS)
local answer = { 0, '', '', 0 }
local WHAT = { 'all', 'itself' }
local TYPES = { r = 'list', p = 'list', e = 'list', t = 'hash', w = 'hash', shift = 'hash', h = 'stream', stats = 'hash', dictionaries = 'hash',
  meta = 'hash', carried = 'hash', gateway = 'hash', tenants = 'hash', beats = 'hash', actions = 'stream', operations = 'hash' }

local function found(index, kind, entry)
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3] = index, kind, entry
end

-- True if the message of a bucket entry is delayed there, as most are. `is_astray` judges all other entries.
local PLAIN = struct.pack('>BB', FORMAT, PENDING)
local function is_in_its_hour(env, member, from)
  if string.sub(env, 1, 2) ~= PLAIN or string.sub(env, 5, 8) ~= string.sub(member, -4) then return false end
  local due = #env >= 32 and struct.unpack('>I8', env, 9)
  return due and due >= from and due < from + HOUR_MS
end

-- Finds entries without a message. Reads the messages in one command, at the same moment as the entries.
local function check_page(index, page)
  local keys, members = {}, {}
  local topic, hour = string.match(index, '^b:(%d+):(%d+)$')
  local any_large = topic ~= nil and is_large(topic)
  local prefix, from = topic and base .. 'm:' .. topic .. ':', hour and hour * HOUR_MS
  for i, member in ipairs(page) do
    local no, id
    if not prefix then no, id = message_of(index, member) end
    if prefix then
      keys[i], members[i] = prefix .. string.sub(member, 1, -5), member
    elseif no then
      keys[#keys + 1], members[#members + 1] = base .. 'm:' .. no .. ':' .. id, member
      any_large = any_large or is_large(no)
    elseif leads_nowhere(index, member) then
      found(index, 'stale_entry', member)
    end
  end
  if #keys == 0 then return end
  for i, env in ipairs(starts_of(keys, any_large)) do
    if not (env and from and is_in_its_hour(env, members[i], from)) then
      local no, id, g = message_of(index, members[i])
      if is_astray(index, g, decode(no, id, env)) then found(index, 'stale_entry', members[i]) end
    end
  end
end

-- True if an index was checked to its end.
local function check(index, score, last, what)
  if limit == 0 then return false end
  one_of('what to look at', what, WHAT)
  if score ~= '' and not string.find(score, '^[%d.e+-]+$') and not string.find(score, '^-?inf$') or last ~= '' and not tonumber(score) then
    refuse('the score must be a number, not ' .. score)
  end
  local type_found = redis.call('TYPE', base .. index).ok
  if type_found ~= 'none' and type_found ~= (TYPES[kind_of(index)] or 'zset') then
    found(index, 'wrong_type', '')
    return true
  end
  if score == '' then
    if silent_since(index) then found(index, 'no_alarm', '') end
    if is_endless(index) then found(index, 'no_shift_end', '') end
    if is_stranded(index) then found(index, 'no_turn', '') end
  end
  if what == 'itself' or not ENTRY[kind_of(index)] and index ~= 'ends' and kind_of(index) ~= 'k' then return true end
  local from = last == '' and 0 or select(2, ranks(base .. index, score, last))
  local page = redis.call('ZRANGE', base .. index, from, from + limit - 1)
  check_page(index, page)
  answer[4] = answer[4] + #page
  if #page == limit then
    answer[2], answer[3] = redis.call('ZSCORE', base .. index, page[#page]), page[#page]
    return false
  end
  limit = limit - #page
  return true
end

for i = 3, #ARGV, 4 do
  if not check(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]) then break end
  answer[1] = answer[1] + 1
end
return answer
