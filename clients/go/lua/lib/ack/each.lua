-- ack/each: acks messages one by one.
--
-- NEEDS    answers, call, end_lease, finish, land, last, leases, others, read, receipt_parts, succeed, together,
--          turn_after, LEASED

local function ack(receipt)
  if not call('ZSCORE', leases, receipt) then return 'expired' end
  local no, id = receipt_parts(receipt)
  local m, why = read(no, id)
  if why == 'newer' or why == 'malformed' then error({ err = why .. ' envelope' }) end
  if m and m.state == LEASED then
    turn_after(m)
    if not succeed(m, 'delivered') then finish(m, 'delivered') end
  end
  end_lease({ no = no }, receipt)
  if m then land(m, receipt) end
  return 'delivered'
end
-- A repeated receipt gets one answer.
local words = {}
for n = 1, together and #others or last - 1 do
  local k = together and others[n] or n
  local receipt = ARGV[k + 1]
  if not words[receipt] then
    local ok, word = pcall(ack, receipt)
    -- A fault fails only its own message.
    words[receipt] = ok and word or 'failed ' .. (type(word) == 'table' and word.err or word)
  end
  answers[k] = words[receipt]
end
