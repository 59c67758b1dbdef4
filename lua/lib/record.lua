-- Writes `events` (topic number, id, event, …) into the histories of topics: `h:<topic no>`, a stream whose oldest
-- events are trimmed. Best effort: comes last, so an interrupted call may lose events, and so may a failing write.
-- Nothing else depends on histories.
local keeps_by, at_now = {}, string.format('%.0f-*', now)
for e = 1, #events, 3 do
  local whose_events, what = events[e], { 'id', events[e + 1], 'what', events[e + 2] }
  local stream = 'h:' .. whose_events
  local keeps = keeps_by[stream] or redis.pcall('HMGET', base .. 't:' .. whose_events, 'history', 'history_for_ms')
  keeps_by[stream] = keeps
  if keeps[1] and keeps[1] ~= '0' then
    local added = redis.pcall('XADD', base .. stream, 'NOMKSTREAM', 'MAXLEN', '~', keeps[1], at_now, unpack(what))
    if type(added) == 'table' then
      -- After the clock was set back: continues at the last event's time.
      redis.pcall('XADD', base .. stream, 'NOMKSTREAM', 'MAXLEN', '~', keeps[1], '*', unpack(what))
    elseif not added then
      -- The first event. The pump trims it once too old.
      local too_old = string.format('%.0f', now + (tonumber(keeps[2]) or HISTORY_FOR_MS))
      local nearer = redis.pcall('ZADD', base .. 'alarms', 'LT', 'CH', too_old, 'markers')
      redis.pcall('ZADD', base .. 'markers', too_old, stream)
      if nearer == 1 then redis.pcall('SPUBLISH', base .. 'wake', too_old) end
      redis.pcall('XADD', base .. stream, at_now, unpack(what))
    end
  end
end
