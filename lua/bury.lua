#!lua flags=allow-oom
-- bury: moves undeliverable messages to the dead letters.
--
-- MOVES    LEASED -> DEAD | DELAYED | READY (as its successor)
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, then 2 a message (1 to 500): receipt, reason (its first 1,000 bytes are kept)
-- RETURNS  one answer a message: buried | expired (the lease was lost: nothing was changed) | failed <why>
-- COST     O(log n) a message, n = dead letters of its topic
--# include now, registry, shard, limits, arguments, defaults, policy, stats, nearest, alarm, gen, format, fields, envelope, hour, bucket, ready, fair, push, note, ends, turn, finish, place, successor, receipt, kill, flight, each

arguments('bury', 1, 2)
gens(#ARGV)
local answers = each(2, 2, function(receipt, reason)
  local m = leased_by(receipt)
  if not m then return 'expired' end
  local is_readable = is_whole(m)
  if is_readable then
    turn_after(m)
    if not succeed(m, 'buried', reason) then
      block_group(m)
      kill(m, reason)
    end
  else
    kill_malformed(m.no, m.id)
  end
  end_lease(m, receipt)
  if is_readable then land(m, receipt) end
  return 'buried'
end)
--# include wake
if events then
--# include record
end
return answers
