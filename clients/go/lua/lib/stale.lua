-- Limits stale entries in a ready queue without consumers: a script that creates stale entries also drops stale entries
-- at the queue's head. Entries after a waiting message go with it, or later.

local function is_stale_ready(no, entry)
  local m, why = read(no, string.sub(entry, 1, -12))
  return why == 'missing' or m ~= nil and (m.state ~= PENDING or gen_bytes(m.gen) ~= string.sub(entry, -11, -8))
end

-- Call once all messages of the call are in place.
local function trim_ready()
  for no, made in pairs(made_stale) do
    local queue = base .. 'r:' .. no
    -- Drops more than this call created, to reduce a backlog.
    local entries = is('list', 'r:' .. no) and redis.call('LRANGE', queue, '0', 2 * made + 7) or {}
    local gone = 0
    while entries[gone + 1] and is_stale_ready(no, entries[gone + 1]) do gone = gone + 1 end
    if gone > 0 then redis.call('LTRIM', queue, gone, '-1') end
  end
end
