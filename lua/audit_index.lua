#!lua flags=no-writes
-- audit_index: checks an index of a shard, and a page of its entries.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, index (its key without the base), then 1 an entry (0 to 500): the entry as ZSCAN found it
-- RETURNS  2 a finding: kind, entry
--            kind   stale_entry (its message is gone, or elsewhere) | of the index itself, with an empty entry:
--                   no_alarm (nothing rings when its first entry is due) | no_shift_end (a shift's cursor that is
--                   never forgotten) | wrong_type
-- COST     O(log n) and a read of the envelope an entry
--# include now, limits, arguments, registry, shard, type, defaults, nearest, alarm, format, fields, envelope, hour, fault

if #ARGV == 2 then arguments('audit_index', 2) else arguments('audit_index', 2, 1) end
local index, answer = ARGV[2], {}
local TYPES = { r = 'list', e = 'list', t = 'hash', shift = 'hash', h = 'stream', stats = 'hash', dictionaries = 'hash',
  meta = 'hash' }

local function found(kind, entry) answer[#answer + 1], answer[#answer + 2] = kind, entry end

if not is(TYPES[string.match(index, '^%a*')] or 'zset', index) then
  found('wrong_type', '')
  return answer
end
if silent_since(index) then found('no_alarm', '') end
if is_endless(index) then found('no_shift_end', '') end
for i = 3, #ARGV do
  if has_entry(index, ARGV[i]) and leads_nowhere(index, ARGV[i]) then found('stale_entry', ARGV[i]) end
end
return answer
