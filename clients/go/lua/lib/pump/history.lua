-- pump/history: trims a topic's expired history. Returns the time of the next check, or nil if nothing is left.
--
-- NEEDS    base, call, now, HISTORY_FOR_MS
-- GIVES    trim_history

local function trim_history(no)
  local stream, kept = base .. 'h:' .. no, redis.pcall('HMGET', base .. 't:' .. no, 'history', 'history_for_ms')
  local span = tonumber(kept[2]) or HISTORY_FOR_MS
  -- Unreadable or untrimmable history is checked again later.
  if kept.err then return now + 10000 end
  if not kept[1] or kept[1] == '0' then
    call('UNLINK', stream)
    return nil
  end
  local trimmed = redis.pcall('XTRIM', stream, 'MINID', string.format('%.0f', math.max(now - span, 0)))
  if type(trimmed) == 'table' then return now + 10000 end
  local first = redis.pcall('XRANGE', stream, '-', '+', 'COUNT', 1)
  if first.err then return now + 10000 end
  if not first[1] then
    call('UNLINK', stream)
    return nil
  end
  -- Batches events instead of a visit for each.
  return math.max(math.min(tonumber(string.match(first[1][1], '^%d+')), now) + span, now + math.max(math.floor(span / 8), 1000))
end
