-- Receipts: topic number, ":", id, gen. A receipt is in `leases` exactly as long as it may settle its message.

local function receipt_parts(receipt)
  local colon = string.find(receipt, ':', 1, true)
  if not colon then return '', '' end
  return string.sub(receipt, 1, colon - 1), string.sub(receipt, colon + 1, -5)
end

-- The message held by `receipt`, or nil. An unreadable message is left to a script that can read it.
local function leased_by(receipt)
  must_be('zset', 'leases')
  if not redis.call('ZSCORE', base .. 'leases', receipt) then return nil end
  local m, why = read(receipt_parts(receipt))
  if why == 'newer' or why == 'malformed' then error({ err = why .. ' envelope' }) end
  return m
end

-- Ends the lease itself.
local function end_lease(m, receipt)
  redis.call('ZREM', base .. 'leases', receipt)
  count('leased', m.no, -1)
end
