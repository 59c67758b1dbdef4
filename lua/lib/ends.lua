-- The ends of markers: `e:<ms>` lists the markers that are forgotten then, each as its message's last receipt, and `ends` has
-- these lists by their time. A list is there only while `ends` has it. An entry whose gen is not the marker's is stale.

-- The list of what is remembered for so many ms from now, and its time. Each list takes an eighth of that time, so that
-- nothing is remembered for more than an eighth too long. `ack.lua` names it too.
local function end_of(remember)
  local until_ms = now + remember
  until_ms = until_ms + -until_ms % math.ceil(remember / 8)
  return string.format('e:%d', until_ms), until_ms
end

-- Refuses, before anything is changed, where a key on the way of a marker's end is of the wrong type.
local function end_check(remember)
  must_be('zset', 'ends')
  must_be('list', end_of(remember))
end

-- Has the marker of a message forgotten in time. To be called before it is written.
local function end_marker(m, remember)
  local list, until_ms = end_of(remember)
  local entry = m.no .. ':' .. m.id .. gen_bytes(m.gen)
  if redis.call('RPUSHX', base .. list, entry) == 0 then
    alarm('ends', until_ms)
    redis.call('ZADD', base .. 'ends', until_ms, list)
    redis.call('RPUSH', base .. list, entry)
  end
end
