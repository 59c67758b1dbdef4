-- What happened to messages, for the history of their topics: `record.lua` writes it at the end, where the topic keeps one.
-- `any_history` says whether any topic may.

-- Notes an event: its word and what belongs to it, as string.format has it.
local function note(no, id, what, ...)
  if not any_history then return end
  events = events or {}
  local n = #events
  events[n + 1], events[n + 2], events[n + 3] = no, id, string.format(what, ...)
end
