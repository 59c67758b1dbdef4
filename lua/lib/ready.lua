-- Ready queues: `r:<topic no>`, a list of id‖gen‖ready time (7 bytes, µs since the epoch), oldest first. A message that
-- is no longer ready is not searched for: its gen is stale, and the script that meets the entry drops it.

-- Appends entries (at most 500), and wakes waiting consumers if the queue was empty. Returns false, without changes,
-- for a queue of the wrong type.
local function make_ready(no, entries)
  local n = #entries
  if n == 0 then return true end
  local counted = redis.pcall('HINCRBY', base .. 'stats', 'ready:' .. no, n == 1 and '1' or n)
  if type(counted) == 'table' then
    error(string.find(counted.err, 'WRONGTYPE') and { err = 'DQTYPE ' .. base .. 'stats is not a hash' } or counted)
  end
  local length = redis.pcall('RPUSH', base .. 'r:' .. no, unpack(entries))
  if type(length) == 'table' then
    redis.call('HINCRBY', base .. 'stats', 'ready:' .. no, -n)
    return false
  end
  if length == n then
    -- Nothing may fail between this push and the following removal.
    local name = redis.pcall('HGET', base .. 't:' .. no, 'name')
    redis.call('SPUBLISH', base .. 'ready', type(name) == 'string' and name or '')
  end
  return true
end
