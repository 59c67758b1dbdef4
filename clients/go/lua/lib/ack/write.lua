-- ack/write: ends the messages: bodies first, leases behind them, counters last, and notes their ends for a history.
--
-- NEEDS    answers, any_history, base, call, ended, events, expiring, freed, gone, grouped, landed, last, leases,
--          marked, stats, sub, topics, whose
-- CHANGES  events

if marked[1] then call('MSET', unpack(marked)) end
if gone then call('UNLINK', unpack(gone)) end
-- The messages are over: leftovers of an index that cannot be written are stale.
for i = 1, grouped and #grouped or 0, 2 do redis.pcall('ZREM', grouped[i], grouped[i + 1]) end
if expiring then redis.pcall('ZREM', base .. 'expiries', unpack(expiring)) end
call('ZREM', leases, unpack(ended))
for no, of in pairs(topics) do
  if of.ended > 0 then
    redis.pcall('HINCRBY', stats, 'leased:' .. no, of.ended == 1 and '-1' or -of.ended)
    redis.pcall('HINCRBY', stats, 'delivered:' .. no, of.ended == 1 and '1' or of.ended)
  end
end
for i = 1, landed and #landed or 0, 3 do redis.pcall('ZREM', base .. 'f:' .. landed[i] .. ':' .. landed[i + 1], landed[i + 2]) end
for i = 1, freed and #freed or 0, 2 do redis.pcall('ZREM', freed[i], freed[i + 1]) end
for k = 1, any_history and last - 1 or 0 do
  if answers[k] == 'delivered' then
    events = events or { nil }
    local e, no = #events, whose[k].no
    events[e + 1], events[e + 2], events[e + 3] = no, sub(ARGV[k + 1], #no + 2, -5), 'delivered'
  end
end
