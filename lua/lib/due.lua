-- Due times: integers of ms since the epoch in (0, 2^53), which a sorted set's score keeps exactly.

-- Reads a caller's due time: ms since the epoch, or "+" and a delay from now. Nil or false if invalid.
local function due_of(text)
  local due = string.byte(text) == 43 and string.find(text, '^%+%d+$') and now + string.sub(text, 2)
    or string.find(text, '^%d+$') and tonumber(text)
  return due and due > 0 and due <= LAST_MS and due
end
