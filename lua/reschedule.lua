#!lua flags=allow-oom
-- reschedule: changes the due time of pending messages, which keep their ids.
--
-- MOVES    DELAYED -> DELAYED | READY; READY -> DELAYED | READY
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, then 3 a message (1 to 500): id (of a recorded write: id, NUL and its record, 16 hex
--          digits), due, expected due ms or ""
--            due   ms since the epoch | "+" and a delay in ms from now | "by +" or "by -" and a difference in
--                  ms to the expected due time, which must be given
-- RETURNS  one answer a message: delayed <old due ms> <due ms> | ready <old due ms> <due ms> |
--          changed <due ms> (not as expected) | leased | dead | finished <outcome> <ms> | unknown |
--          refused <why> | failed <why>; of a record that was carried out before, the first answer
-- COST     O(log n) a message, n = messages of its topic due in its hours
--# include now, limits, arguments, due, delay, registry, shard, topic, durability, defaults, policy, stats, nearest, alarm, gen, format, fields, envelope, hour, bucket, stale, ready, fair, push, note, ends, turn, finish, place, expiry, reschedule, once, each

arguments('reschedule', 2, 3)
local no = topic_no(ARGV[2])
must_wait(no, ARGV[2])
gens(#ARGV)

local function new_due(text, expected)
  local by = string.match(text, '^by ([+-]%d+)$')
  if by then return expected and in_range(expected + by) end
  return due_of(text)
end

local function reschedule(id, text, expected_text)
  local m, why = read(no, id)
  if not m then return why == 'missing' and 'unknown' or 'failed ' .. why end
  if m.state == LEASED then return 'leased' end
  if m.state == DEAD then return 'dead' end
  if m.state > DEAD then return string.format('finished %s %.0f', STATE[m.state], m.at) end
  local expected = within(expected_text, 0, math.huge)
  if not expected and expected_text ~= '' then return 'failed expected due ms' end
  local due, old = new_due(text, expected), m.due
  if not due then return 'refused due time' end
  local expires = expiry_at(m, due)
  if expires and expires <= due then return 'refused expiry not after the due time' end
  if expected and old ~= expected and old ~= due then return string.format('changed %.0f', old) end
  return string.format('%s %.0f %.0f', reschedule_to(m, due), old, due)
end

local answers = each(3, 3, function(item, due, expected)
  local id, record = with_record(item)
  return once(record, function() return no and reschedule(id, due, expected) or 'unknown' end)
end)
trim_ready()
--# include wake
if events then
--# include record
end
return answers
