-- pump/alarms: reads the alarms that ring.
--
-- NEEDS    alarms, call, index_of_alarms, now, second, soonest
-- CHANGES  alarms
-- GIVES    more, next_due, next_text, rang

-- Number of ringing alarms, and the shard's next due time as known so far: as a number, and as text, which saves
-- formatting.
local rang, more, next_due, next_text = 1, false, second, alarms[4]
if not soonest or soonest > now then
  rang, next_due, next_text = 0, soonest, alarms[2]
elseif second and second <= now then
  alarms = call('ZRANGE', index_of_alarms, '0', '100', 'WITHSCORES')
  rang = 2
  while rang < 100 and alarms[2 * rang + 2] and tonumber(alarms[2 * rang + 2]) <= now do rang = rang + 1 end
  next_text = alarms[2 * rang + 2]
  next_due = tonumber(next_text)
  more = next_due and next_due <= now or false
end
