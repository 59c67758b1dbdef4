-- Notifies the timer, once and last, if the shard's next due time may be earlier: nothing is due before the nearest
-- alarm that was set, even if that alarm is gone again.
if nearest then
  local head = redis.call('ZRANGE', base .. 'alarms', '0', '0', 'WITHSCORES')[2]
  if head and tonumber(head) >= nearest then redis.call('SPUBLISH', base .. 'wake', head) end
end
