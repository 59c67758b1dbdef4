-- Entries for a ready queue.

-- The end of an entry: the ready time of its message.
local function ready_stamp() return struct.pack('>I7', now_us) end

-- Appends entries like `make_ready`; raises an error for a queue of the wrong type.
local function push_ready(no, entries)
  if not make_ready(no, entries) then error({ err = 'DQTYPE ' .. base .. 'r:' .. no .. ' is not a list' }) end
end
