-- Keeps stale entries from piling up in a ready queue that nobody reserves from: a script that makes some looks at its head,
-- and drops what is stale there. What stands behind a message that waits goes with it, or after it.

local function is_stale_ready(no, entry)
  local m, why = read(no, string.sub(entry, 1, -12))
  return why == 'missing' or m ~= nil and (m.state ~= PENDING or gen_bytes(m.gen) ~= string.sub(entry, -11, -8))
end

-- To be called once all messages of the call are where they belong.
local function trim_ready()
  for no, made in pairs(made_stale) do
    local queue = base .. 'r:' .. no
    -- More than were made, so that what piled up goes too.
    local entries = is('list', 'r:' .. no) and redis.call('LRANGE', queue, '0', 2 * made + 7) or {}
    local gone = 0
    while entries[gone + 1] and is_stale_ready(no, entries[gone + 1]) do gone = gone + 1 end
    if gone > 0 then redis.call('LTRIM', queue, gone, '-1') end
  end
end
