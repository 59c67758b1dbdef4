-- HSCAN cursors for `topics_page`.
local function topics_cursor(text) return within(text, 0, LAST_MS) and text or refuse('no page of topics: ' .. text) end
