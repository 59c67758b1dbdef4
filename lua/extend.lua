#!lua flags=allow-oom
-- extend: extends leases.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, then 2 a message (1 to 500): receipt, lease ms from now (1 to a day; "" for the
--          topic's)
-- RETURNS  one answer a message: <lease end ms> | expired (the lease was lost) | cancelled (requested
--          meanwhile; the lease is extended) <lease end ms> | failed <why>
-- COST     O(log n) a message, n = leases of the shard
--# include now, limits, arguments, registry, shard, defaults, policy, stats, nearest, alarm, format, envelope, receipt, lease, each

arguments('extend', 1, 2)
local answers = each(2, 2, function(receipt, lease)
  local m = leased_by(receipt)
  if not m then return 'expired' end
  local lease_ms = lease == '' and topic_lease(policy(m.no, 'lease_ms')) or within(lease, 1, LONGEST_LEASE_MS)
  if not lease_ms then return 'failed a lease of ' .. lease .. ' ms is not 1 ms to a day' end
  note_lease(lease_ms)
  m.at = now + lease_ms
  alarm('leases', m.at)
  redis.call('ZADD', base .. 'leases', 'XX', m.at, receipt)
  write_head(m)
  local doomed = bit.band(m.flags, DOOMED) > 0 and 'cancelled ' or ''
  return doomed .. string.format('%.0f', m.at)
end)
--# include wake
return answers
