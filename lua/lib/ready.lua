-- Ready queues: `r:<topic no>`, a list of id‖gen‖ready time (7 bytes, µs since the epoch), oldest first.
-- What is no longer ready is not searched for in it: its gen is stale, and whoever meets it drops it.

-- The end of an entry: the time from which its message is ready.
local function ready_stamp() return struct.pack('>I7', now_us) end

-- Appends entries (at most 500), and wakes whoever waits where the queue was empty. False, and nothing is changed,
-- where the queue is of the wrong type.
local function make_ready(no, entries)
  local n = #entries
  if n == 0 then return true end
  local counted = redis.pcall('HINCRBY', base .. 'stats', 'ready:' .. no, n)
  if type(counted) == 'table' then
    must_be('hash', 'stats')
    error(counted)
  end
  local length = redis.pcall('RPUSH', base .. 'r:' .. no, unpack(entries))
  if type(length) == 'table' then
    redis.call('HINCRBY', base .. 'stats', 'ready:' .. no, -n)
    return false
  end
  if length == n then
    -- Nothing may fail between this push and the removal that follows it.
    local name = redis.pcall('HGET', base .. 't:' .. no, 'name')
    redis.call('SPUBLISH', base .. 'ready', type(name) == 'string' and name or '')
  end
  return true
end

-- The same, and an error where the queue is of the wrong type.
local function push_ready(no, entries)
  if not make_ready(no, entries) then error({ err = 'DQTYPE ' .. base .. 'r:' .. no .. ' is not a list' }) end
end
