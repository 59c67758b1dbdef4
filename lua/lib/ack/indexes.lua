-- ack/indexes: counts the ended messages, and adds and removes index entries. Stops at the first failure, usually a
-- key of the wrong type.
--
-- NEEDS    base, blind, expiring, grouped, landed, leases, lists, nearest, now, stats, sub, topics, LAST_MS
-- CHANGES  nearest
-- GIVES    failed, listed, new

-- A read probes the type of `leases`.
local failed = not blind and type(redis.pcall('ZCARD', leases)) == 'table'
for no, of in pairs(topics) do
  if of.ended > 0 and not failed then
    of.left = redis.pcall('HINCRBY', stats, 'leased:' .. no, of.ended == 1 and '-1' or -of.ended)
    of.done = redis.pcall('HINCRBY', stats, 'delivered:' .. no, of.ended == 1 and '1' or of.ended)
    failed = type(of.left) == 'table' or type(of.done) == 'table'
  end
end
-- Number of completed lists, and the names of new lists.
local listed, new = 0, nil
for i = 1, not failed and lists and #lists or 0 do
  local pushed = redis.pcall('RPUSHX', unpack(lists[i]))
  if pushed == 0 then
    -- `ends` must name a list before the list exists.
    local name = sub(lists[i][1], #base + 1)
    local until_text = sub(name, 3)
    new = new or {}
    new[#new + 1] = name
    local nearer = redis.pcall('ZADD', base .. 'alarms', 'LT', 'CH', until_text, 'ends')
    if nearer == 1 then nearest = math.min(tonumber(until_text), nearest or LAST_MS) end
    local is_in = type(nearer) == 'number' and redis.pcall('ZADD', base .. 'ends', until_text, name)
    pushed = type(is_in) == 'number' and redis.pcall('RPUSH', unpack(lists[i]))
  end
  failed = type(pushed) ~= 'number'
  if failed then break end
  listed = i
end
-- As in `turn.lua`: a turn too many is dropped.
for i = 1, landed and not failed and #landed or 0, 3 do
  local no, group = landed[i], landed[i + 1]
  local is_queued = redis.pcall('ZSCORE', base .. 'k:' .. no, group)
  local given = is_queued and redis.pcall('ZADD', base .. 'n:' .. no, 'NX', now, group)
  failed = failed or type(is_queued) == 'table' or type(given) == 'table'
  if given == 1 then
    local name = redis.pcall('HGET', base .. 't:' .. no, 'name')
    redis.call('SPUBLISH', base .. 'ready', type(name) == 'string' and name or '')
  end
end
-- Removals from these indexes cannot be undone, so they come last; a read probes `expiries`.
if expiring and not failed then failed = type(redis.pcall('ZCARD', base .. 'expiries')) == 'table' end
for i = 1, grouped and #grouped or 0, 2 do failed = failed or type(redis.pcall('ZREM', grouped[i], grouped[i + 1])) == 'table' end
