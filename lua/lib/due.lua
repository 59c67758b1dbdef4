-- Due times: integers of ms since the epoch in (0, 2^53), which a sorted set's score keeps exactly.

local function in_range(due) return due > 0 and due <= LAST_MS and due end

-- When a delay of so many ms ends, as a caller writes it. False or nil where it is none, or ends past all times.
local function end_of_delay(text) return string.find(text, '^%d+$') and in_range(now + tonumber(text)) end

-- A due time as a caller writes it: ms since the epoch, or "+" and a delay from now. False or nil where it is none.
local function due_of(text)
  if string.find(text, '^%d+$') then return in_range(tonumber(text)) end
  return string.find(text, '^%+%d+$') and in_range(now + string.sub(text, 2))
end
