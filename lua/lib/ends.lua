-- The ends of markers: `e:<ms>` lists the markers to forget at that time, each as its message's last receipt, and
-- `ends` holds these lists by time. A list exists only while `ends` names it. An entry with another gen than the
-- marker's is stale.

-- The list for markers remembered for this many ms from now, and its time. Each list covers an eighth of that duration,
-- so that nothing is remembered more than an eighth too long. `ack/judge.lua` names lists as well.
local function end_of(remember)
  local until_ms = now + remember
  until_ms = until_ms + -until_ms % math.ceil(remember / 8)
  return string.format('e:%d', until_ms), until_ms
end

-- Schedules the end of a message's marker. Call before writing the marker.
local function end_marker(m, remember)
  local list, until_ms = end_of(remember)
  local entry = m.no .. ':' .. m.id .. gen_bytes(m.gen)
  if redis.call('RPUSHX', base .. list, entry) == 0 then
    alarm('ends', until_ms)
    redis.call('ZADD', base .. 'ends', until_ms, list)
    redis.call('RPUSH', base .. list, entry)
  end
end
