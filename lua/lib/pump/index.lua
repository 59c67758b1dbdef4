-- pump/index: handles the due names of an index, and sets the alarm to the rest.
--
-- NEEDS    base, blocked, call, index_of_alarms, more, now
-- CHANGES  blocked, more
-- GIVES    block, pump_index, rearm

-- Sets an alarm to the rest of its index: a time as text. A past time triggers another round.
local function rearm(member, due)
  if not due then
    call('ZREM', index_of_alarms, member)
    return
  end
  call('ZADD', index_of_alarms, due, member)
  if tonumber(due) <= now then more = true end
end

-- Postpones blocked work, so that a wrong key stops nothing else.
local function block(member)
  blocked = blocked + 1
  call('ZADD', index_of_alarms, now + 1000, member)
end

-- Hands the first `n` due names of an index to `one`, and removes them from the index. Blocked names (a later format, a
-- key of the wrong type) stay, to be retried in ten seconds.
local function pump_index(index, n, one, then_on)
  local names = redis.pcall('ZRANGEBYSCORE', base .. index, '-inf', now, 'LIMIT', 0, n)
  if names.err then return block(index) end
  for _, name in ipairs(names) do
    if pcall(one, name) then
      redis.call('ZREM', base .. index, name)
    else
      blocked = blocked + 1
      redis.call('ZADD', base .. index, now + 10000, name)
    end
  end
  local go_on = then_on and then_on()
  rearm(index, go_on and string.format('%.0f', now) or redis.call('ZRANGE', base .. index, '0', '0', 'WITHSCORES')[2])
end
