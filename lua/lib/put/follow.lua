-- put/follow: puts the next message by the ack of a leased message, with the option `ack`.
--
-- NEEDS    base, call, count, end_lease, finish, land, leased_by, no, read, receipt, receipt_parts, sub, succeed,
--          taken, turn_after, DOOMED
-- GIVES    end_acked, judge_next

-- Ends the lease of `m`. Unless the next message has taken the place of `m`, a successor takes it, or `m` ends.
local function end_acked(m, is_replaced)
  if not is_replaced and not succeed(m, 'delivered') then finish(m, 'delivered') end
  end_lease(m, receipt)
  land(m, receipt)
end

-- Judges a put with a receipt: an answer; or nil, the leased message, and the same once more if the next message takes its place.
local function judge_next(id, found, flags, env)
  local m = leased_by(receipt)
  if m then turn_after(m) end
  if m and bit.band(m.flags, DOOMED) > 0 then
    end_acked(m)
    return 'cancelled'
  end
  local of, name = receipt_parts(receipt)
  local is_same_id = of == no and name == id
  if m and (is_same_id or not found) then return nil, m, is_same_id and m or nil end
  local word = found and taken(id, flags, env) or 'expired'
  local exists = sub(word, 1, 6) == 'exists'
  if m then
    if exists then end_acked(m) end
    return word
  end
  -- Under the id of the leased message, a delivered message is not the next message.
  if not exists or is_same_id and read(no, id).delivery > 0 then return 'expired' end
  -- An interrupted call may have left the lease.
  if call('ZREM', base .. 'leases', receipt) == 1 then count('leased', of, -1) end
  return word
end
