-- pump/leases: returns messages whose lease ran out, and shortens leases that end too late.
--
-- NEEDS    base, block_group, buried, count, expired, gen_bytes, give_back, is_whole, kill_malformed, land, longest,
--          note, now, read, receipt_parts, returned, turn_after, write_head, LEASED, PENDING
-- CHANGES  buried, expired, returned
-- GIVES    cut_leases, lease_over

local function lease_over(receipt)
  local no, id = receipt_parts(receipt)
  local m, why = read(no, id)
  if why == 'newer' then error('newer') end
  if why == 'malformed' or m and m.state == LEASED and not is_whole(m) then
    kill_malformed(no, id)
    count('leased', no, -1)
    returned, buried = returned + 1, buried + 1
    return
  end
  if not m or m.state ~= LEASED or id .. gen_bytes(m.gen) ~= string.sub(receipt, #no + 2) then return end
  turn_after(m)
  block_group(m)
  local word = give_back(m, nil, 'its lease ran out at the last attempt')
  count('leased', no, -1)
  land(m, receipt)
  returned = returned + 1
  if m.state == PENDING then note(no, id, 'lease_ended %.0f %s', m.due, word) end
  if word == 'buried' then buried = buried + 1 end
  if word == 'expired' then expired = expired + 1 end
end

-- Shortens a lease to end at `until_ms`.
local function cut_lease(receipt, until_ms)
  local no, id = receipt_parts(receipt)
  local m = read(no, id)
  if m and m.state == LEASED and id .. gen_bytes(m.gen) == string.sub(receipt, #no + 2) then
    m.at = until_ms
    write_head(m)
  end
  redis.call('ZADD', base .. 'leases', until_ms, receipt)
end

-- Shortens leases with a later end than any lease given now: the clock read ahead at the time. They now last as long as
-- the longest lease. Returns true if there may be more.
local function cut_leases()
  local far = now + longest
  local receipts = redis.call('ZRANGEBYSCORE', base .. 'leases', string.format('(%.0f', far), '+inf', 'LIMIT', 0, 100)
  for _, receipt in ipairs(receipts) do cut_lease(receipt, far) end
  return #receipts == 100
end
