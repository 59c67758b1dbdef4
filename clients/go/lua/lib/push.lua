-- Entries for a ready queue.

-- The end of an entry: the ready time of its message.
local function ready_stamp() return struct.pack('>I7', now_us) end

-- Appends the entry of a message with these flags and this group (nil without), like `make_ready`; raises the fault if Redis
-- refuses.
local function push_ready(no, entry, flags, group)
  local done, fault = make_ready(no, { entry }, flags, group)
  if not done then error(fault) end
end
