#!lua flags=allow-oom
-- extend: gives leases more time.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, then 2 a message (1 to 500): receipt, lease ms from now ("" for the topic's)
-- RETURNS  one answer a message: <lease end ms> | expired (the lease was taken back) | cancelled (it was asked
--          for meanwhile; the lease is extended) <lease end ms> | failed <why>
-- COST     O(log n) a message, n = leases of the shard
--# include now, due, shard, arguments, topic, alarm, envelope, receipt, each

arguments('extend', 1, 2)
local answers = each(2, 2, function(receipt, lease)
  local m = leased_by(receipt)
  if not m then return 'expired' end
  local until_ms = lease == '' and in_range(now + policy(m.no, 'lease_ms')) or lease ~= '' and end_of_delay(lease)
  if not until_ms then return 'failed a lease of ' .. lease .. ' ms is none, or too long' end
  m.at = until_ms
  redis.call('ZADD', base .. 'leases', 'XX', m.at, receipt)
  alarm('leases', m.at)
  write_head(m)
  local doomed = bit.band(m.flags, DOOMED) > 0 and 'cancelled ' or ''
  return doomed .. string.format('%.0f', m.at)
end)
wake_timer()
return answers
