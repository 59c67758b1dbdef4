-- Ready queues: `r:<topic no>`, a list of id‖gen‖ready time (7 bytes, µs since the epoch), oldest first. A message that
-- is no longer ready is not searched for: its gen is stale, and the script that meets the entry drops it. `fair.lua` replaces
-- `make_ready` in shards with a topic in fair order.

-- Appends entries (at most 500), and wakes waiting consumers if the queue was empty. Returns false and the fault if
-- Redis refuses; nothing may fail behind the append, or the next pump would append again.
local function make_ready(no, entries)
  local n = #entries
  if n == 0 then return true end
  local length = redis.pcall('RPUSH', base .. 'r:' .. no, unpack(entries))
  if type(length) == 'table' then return false, length end
  redis.pcall('HINCRBY', base .. 'stats', 'ready:' .. no, n == 1 and '1' or n)
  if length == n then
    local name = redis.pcall('HGET', base .. 't:' .. no, 'name')
    redis.call('SPUBLISH', base .. 'ready', type(name) == 'string' and name or '')
  end
  return true
end
