#!lua flags=no-writes
-- audit_index: checks indexes of a shard, and their entries, in steps.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, limit (1 to 500 entries), then 3 an index (1 to 500): key without its base, score, member (of the
--          entry that was looked at last; "" and "" at first)
-- RETURNS  how many indexes were checked to their end, where to go on in the next one (score and member), how many entries
--          were looked at, then 3 a finding: index, kind, entry
--            kind   stale_entry (its message is gone, or elsewhere) | of the index itself, with an empty entry:
--                   no_alarm (nothing rings when its first entry is due) | no_shift_end (a shift's cursor that is
--                   never forgotten) | wrong_type
-- COST     O(log n) an index, and a read of the envelope an entry
--# include now, limits, arguments, registry, shard, type, defaults, nearest, alarm, format, fields, envelope, hour, page, fault

arguments('audit_index', 2, 3)
local limit = number('the limit', ARGV[2], 1, MOST_IDS)
local answer = { 0, '', '', 0 }
local TYPES = { r = 'list', e = 'list', t = 'hash', shift = 'hash', h = 'stream', stats = 'hash', dictionaries = 'hash',
  meta = 'hash' }

local function found(index, kind, entry)
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3] = index, kind, entry
end

-- What entries lead nowhere, of those that stand for messages. They are read in one command. An entry that was read is of
-- this very moment, as are the messages.
local function check_page(index, page)
  local keys, known = {}, {}
  for i = 1, #page, 2 do
    local no, id, g = message_of(index, page[i])
    if no then
      keys[#keys + 1] = base .. 'm:' .. no .. ':' .. id
      known[#known + 1] = { no, id, g, page[i] }
    elseif leads_nowhere(index, page[i]) then
      found(index, 'stale_entry', page[i])
    end
  end
  if #keys == 0 then return end
  for i, env in ipairs(redis.call('MGET', unpack(keys))) do
    local no, id, g, member = unpack(known[i])
    if is_astray(index, g, decode(no, id, env)) then found(index, 'stale_entry', member) end
  end
end

-- Whether an index was checked to its end.
local function check(index, score, last)
  if limit == 0 then return false end
  if not is(TYPES[kind_of(index)] or 'zset', index) then
    found(index, 'wrong_type', '')
    return true
  end
  if score == '' then
    if silent_since(index) then found(index, 'no_alarm', '') end
    if is_endless(index) then found(index, 'no_shift_end', '') end
  end
  if not ENTRY[kind_of(index)] and index ~= 'ends' then return true end
  local page = page_behind(base .. index, score == '' and '-inf' or score, last, limit)
  check_page(index, page)
  answer[4] = answer[4] + #page / 2
  if #page == 2 * limit then
    answer[2], answer[3] = page[#page], page[#page - 1]
    return false
  end
  limit = limit - #page / 2
  return true
end

for i = 3, #ARGV, 3 do
  if not check(ARGV[i], ARGV[i + 1], ARGV[i + 2]) then break end
  answer[1] = answer[1] + 1
end
return answer
