#!lua flags=no-writes
-- peek: shows messages, or their markers.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, then 1 a message (1 to 500): id
-- RETURNS  now_us, then one envelope a message, "" if unknown; ends at 512 KiB of envelopes: the caller asks for the rest again
-- COST     O(1) and a read of the envelope a message
--# include now, registry, shard, limits, arguments, topic, stats, nearest, alarm, format, envelope, fields, hour, bucket, look, shown

arguments('peek', 2, 1)
local no, bytes = topic_no(ARGV[2]), 0
local answer = { now_us }
for i = 3, #ARGV do
  if bytes >= MOST_PAGE_BYTES then break end
  answer[i - 1] = no and shown(no, ARGV[i]) or ''
  bytes = bytes + #answer[i - 1]
end
return answer
