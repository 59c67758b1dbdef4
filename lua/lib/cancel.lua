-- Cancels one message, in any state.
local function cancel(no, id)
  local m, why = read(no, id)
  if not m then return why == 'missing' and 'unknown' or 'failed ' .. why end
  if m.state == PENDING then
    finish(m, 'cancelled')
    unplace(m)
    return 'cancelled'
  end
  if m.state == LEASED then
    if bit.band(m.flags, DOOMED) == 0 then note(no, id, 'cancel_requested') end
    m.flags = bit.bor(m.flags, DOOMED)
    -- It was put before the cancel.
    take_successor(m)
    write_head(m)
    return 'leased'
  end
  if m.state == DEAD then return 'dead' end
  if m.state == OUTCOME.cancelled then return 'cancelled' end
  return string.format('finished %s %.0f', STATE[m.state], m.at)
end
