-- Receipts: topic number, ":", id, gen. One stands in `leases` exactly as long as it may settle its message.

local function receipt_parts(receipt)
  local colon = string.find(receipt, ':', 1, true)
  if not colon then return '', '' end
  return string.sub(receipt, 1, colon - 1), string.sub(receipt, colon + 1, -5)
end

-- The message that `receipt` still holds, or nil. One that cannot be read is left to who can.
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
