-- How long the messages of a ready queue have waited, as its head tells it: the oldest, unless some came back or the clock was
-- set back.

-- From when the head of a topic's ready queue is ready, or the next parked message that has a turn, in µs: the earlier one; nil
-- where there is none, or none that can be read. LRANGE, as LINDEX would be one more command that users must be allowed.
local function head_ready_us(no)
  local since
  local group = redis.pcall('ZRANGE', base .. 'n:' .. no, 0, 0)[1]
  for _, queue in ipairs({ 'r:' .. no, group and 'p:' .. no .. ':' .. group }) do
    local head = redis.pcall('LRANGE', base .. queue, 0, 0)[1]
    local at = head and #head > 11 and struct.unpack('>I7', string.sub(head, -7))
    since = at and math.min(since or at, at) or since
  end
  return since
end
