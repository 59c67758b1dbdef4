#!lua flags=allow-oom
-- cancel: cancels messages.
--
-- MOVES    DELAYED | READY -> cancelled; LEASED keeps its lease without a further attempt
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, then 1 a message (1 to 500): id (of a recorded write: id, NUL and its record, 16 hex
--          digits)
-- RETURNS  one answer a message: cancelled (now or before) | leased (will not be retried) | dead |
--          finished <outcome> <ms> | unknown | failed <why>; of a record that was carried out
--          before, the first answer
-- COST     O(log n) a message, n = messages of its topic due in its hour
--# include now, registry, shard, limits, arguments, topic, durability, defaults, policy, stats, nearest, alarm, format, fields, envelope, hour, bucket, stale, note, ends, turn, finish, cancel, once, each

arguments('cancel', 2, 1)
local no = topic_no(ARGV[2])
must_wait(no, ARGV[2])
local answers = each(3, 1, function(item)
  local id, record = with_record(item)
  return once(record, function() return no and cancel(no, id) or 'unknown' end)
end)
trim_ready()
--# include wake
if events then
--# include record
end
return answers
