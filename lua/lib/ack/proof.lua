-- ack/proof: reads the proof that each message is held: its receipt in `leases` or, where the body is read anyway, the
-- gen of its lease.
--
-- NEEDS    any_large, blind, call, keys, last, leases, together
-- CHANGES  together
-- GIVES    proof

local proof = together and (blind and redis.pcall('ZMSCORE', leases, unpack(ARGV, 2)) or any_large and {} or call('MGET', unpack(keys)))
-- As in `start_of`.
for k = 1, together and not blind and any_large and last - 1 or 0 do
  local start = redis.pcall('GETRANGE', keys[k], '0', '559')
  proof[k] = type(start) == 'string' and start
  together = together and (proof[k] ~= false or string.sub(start.err, 1, 9) == 'WRONGTYPE')
end
if not proof or proof.err then together = false end
