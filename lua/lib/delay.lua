-- Due times that are computed.
local function in_range(due) return due > 0 and due <= LAST_MS and due end

-- When a delay of so many ms ends, as a caller writes it. False or nil where it is none, or ends past all times.
local function end_of_delay(text) return string.find(text, '^%d+$') and in_range(now + tonumber(text)) end
