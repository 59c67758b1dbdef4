-- Writes `events` (topic number, id, what happened, …) into the histories of the topics that keep one: `h:<topic no>`, a stream
-- of which the oldest are cut off. It is best effort: it comes last, so a call that is cut off may lose events, and one that
-- cannot be written is lost. Nothing else depends on it.
local keeps_by, at_now = {}, string.format('%.0f-*', now)
for e = 1, #events, 3 do
  local whose_events, what = events[e], { 'id', events[e + 1], 'what', events[e + 2] }
  local stream = 'h:' .. whose_events
  local keeps = keeps_by[stream] or redis.pcall('HMGET', base .. 't:' .. whose_events, 'history', 'history_for_ms')
  keeps_by[stream] = keeps
  if keeps[1] and keeps[1] ~= '0' then
    local added = redis.pcall('XADD', base .. stream, 'NOMKSTREAM', 'MAXLEN', '~', keeps[1], at_now, unpack(what))
    if type(added) == 'table' then
      -- The clock was set back: as if no time had passed since the last event.
      redis.pcall('XADD', base .. stream, 'NOMKSTREAM', 'MAXLEN', '~', keeps[1], '*', unpack(what))
    elseif not added then
      -- The first one. The pump looks at it once it is too old.
      local too_old = string.format('%.0f', now + (tonumber(keeps[2]) or HISTORY_FOR_MS))
      local nearer = redis.pcall('ZADD', base .. 'alarms', 'LT', 'CH', too_old, 'markers')
      redis.pcall('ZADD', base .. 'markers', too_old, stream)
      if nearer == 1 then redis.pcall('SPUBLISH', base .. 'wake', too_old) end
      redis.pcall('XADD', base .. stream, at_now, unpack(what))
    end
  end
end
