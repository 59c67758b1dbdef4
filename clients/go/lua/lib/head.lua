-- How long the messages of a ready queue have waited, as its head tells it: the oldest, unless some came back or the clock was
-- set back.

-- From when the head of a topic's ready queue is ready, in µs; nil where there is none, or none that can be read. LRANGE, as
-- LINDEX would be one more command that users must be allowed.
local function head_ready_us(no)
  local head = redis.pcall('LRANGE', base .. 'r:' .. no, 0, 0)[1]
  return head and #head > 11 and (struct.unpack('>I7', string.sub(head, -7))) or nil
end
