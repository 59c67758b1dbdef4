-- ack/indexes: lists the ends of markers, and gives turns to groups. Stops at the first failure.
--
-- NEEDS    base, landed, lists, nearest, now_us, sub, LAST_MS
-- CHANGES  nearest
-- GIVES    failed

local failed = false
for i = 1, lists and #lists or 0 do
  local pushed = redis.pcall('RPUSHX', unpack(lists[i]))
  if pushed == 0 then
    -- `ends` must name a list before the list exists.
    local name = sub(lists[i][1], #base + 1)
    local until_text = sub(name, 3)
    local nearer = redis.pcall('ZADD', base .. 'alarms', 'LT', 'CH', until_text, 'ends')
    if nearer == 1 then nearest = math.min(tonumber(until_text), nearest or LAST_MS) end
    local is_in = type(nearer) == 'number' and redis.pcall('ZADD', base .. 'ends', until_text, name)
    pushed = type(is_in) == 'number' and redis.pcall('RPUSH', unpack(lists[i]))
  end
  failed = type(pushed) ~= 'number'
  if failed then break end
end
-- As in `turn.lua`: a turn too many is dropped.
for i = 1, landed and not failed and #landed or 0, 3 do
  local no, group = landed[i], landed[i + 1]
  local is_queued = redis.pcall('ZSCORE', base .. 'k:' .. no, group)
  local given = is_queued and redis.pcall('ZADD', base .. 'n:' .. no, 'NX', now_us, group)
  failed = failed or type(is_queued) == 'table' or type(given) == 'table'
  if given == 1 then
    local name = redis.pcall('HGET', base .. 't:' .. no, 'name')
    redis.call('SPUBLISH', base .. 'ready', type(name) == 'string' and name or '')
  end
end
