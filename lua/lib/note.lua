-- Events for the histories of topics: `record.lua` writes them at the end, if the topic keeps a history. `any_history`
-- is true if any topic may.

-- Records an event: its word and details, formatted by string.format.
local function note(no, id, what, ...)
  if not any_history then return end
  events = events or {}
  local n = #events
  events[n + 1], events[n + 2], events[n + 3] = no, id, string.format(what, ...)
end
