-- Computed due times.
local function in_range(due) return due > 0 and due <= LAST_MS and due end

-- The end of a delay of this many ms, as text from a caller. False or nil for an invalid delay, or a delay past the
-- last time.
local function end_of_delay(text) return string.find(text, '^%d+$') and in_range(now + tonumber(text)) end
