#!lua flags=allow-oom
-- release: gives undelivered messages back.
--
-- MOVES    LEASED -> DELAYED | READY | DEAD (attempts used up) | cancelled (asked for meanwhile) | expired
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, then 4 a message (1 to 500): receipt, delay ms ("" for the message's back-off), "keep" if the
--          attempt does not count or "", reason for the dead letters
-- RETURNS  one answer a message: delayed <due ms> | ready <due ms> | buried | cancelled | expired-message |
--          expired (the lease was lost: nothing was changed) | failed <why>
-- COST     O(log n) a message, n = messages of its topic due in its hour
--# include now, limits, arguments, delay, registry, shard, defaults, policy, stats, nearest, alarm, gen, format, fields, envelope, hour, bucket, ready, fair, push, note, ends, turn, finish, place, successor, receipt, kill, backoff, retry, flight, each

arguments('release', 1, 4)
gens(#ARGV)
local answers = each(2, 4, function(receipt, delay, keep, reason)
  local m = leased_by(receipt)
  if not m then return 'expired' end
  if delay ~= '' and not end_of_delay(delay) then return 'failed invalid delay (' .. delay .. ' ms)' end
  if keep ~= '' and keep ~= 'keep' then return 'failed "keep" or "", not ' .. keep end
  if keep == 'keep' then m.attempt = math.max(m.attempt - 1, 0) end
  turn_after(m)
  block_group(m)
  local word = give_back(m, tonumber(delay), reason)
  end_lease(m, receipt)
  land(m, receipt)
  if word == 'expired' then return 'expired-message' end
  if m.state == PENDING then
    note(m.no, m.id, '%s %.0f %s %s', keep == 'keep' and 'released' or 'failed', m.due, word, string.sub(reason, 1, 200))
    return string.format('%s %.0f', word, m.due)
  end
  return word
end)
--# include wake
if events then
--# include record
end
return answers
