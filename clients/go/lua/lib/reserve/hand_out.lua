-- reserve/hand_out: writes the heads of leased messages, removes their entries, and notes the leases for a history.
--
-- NEEDS    call, entries, events, heads, keys, no, queue, sub, taken, terms, until_text, who
-- CHANGES  events

-- Leases come first: a lease whose message was not handed out ends by itself, a message without a lease would
-- be stuck. Entries come last: an interruption leaves stale entries, never a lost one.
for i = 1, taken do call('SETRANGE', keys[i], '0', heads[i]) end
call('LTRIM', queue, taken, '-1')
if terms[4] and terms[4] ~= '0' then
  events = events or {}
  for i = 1, taken do
    local e, _, attempt = #events, struct.unpack('>I4I2', heads[i], 25)
    events[e + 1], events[e + 2] = no, sub(entries[i], 1, -12)
    events[e + 3] = string.format('leased %d %s %s', attempt, until_text, who)
  end
end
