-- Receipts: topic number, ":", id, gen. A receipt is in `leases` exactly as long as it may settle its message.

local function receipt_parts(receipt)
  local colon = string.find(receipt, ':', 1, true)
  if not colon then return '', '' end
  return string.sub(receipt, 1, colon - 1), string.sub(receipt, colon + 1, -5)
end

-- True if `receipt` holds `m`: an interrupted script may leave a lease of a message that went on.
local function is_held(m, receipt)
  return m ~= nil and m.state == LEASED and gen_bytes(m.gen) == string.sub(receipt, -4)
end

-- The message held by `receipt`, or nil. An unreadable message is left to a script that can read it.
local function leased_by(receipt)
  if not redis.call('ZSCORE', base .. 'leases', receipt) then return nil end
  local m, why = read(receipt_parts(receipt))
  if why == 'newer' or why == 'malformed' then error({ err = why .. ' envelope' }) end
  return is_held(m, receipt) and m or nil
end

-- Ends the lease itself.
local function end_lease(m, receipt)
  redis.call('ZREM', base .. 'leases', receipt)
  count('leased', m.no, -1)
end
