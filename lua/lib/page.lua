-- The start of a page: after the last shown entry, whether that still exists or not. A rank would be wrong: a removal
-- before the position moves later entries up, and the page would skip them.

-- True if a member precedes another with the same score: by bytes, because Lua's `<` follows the locale.
local function in_front(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then return a < b end
  end
  return #one < #other
end

-- Number of entries of a sorted set before (score, member), and number including it.
local function ranks(index, score, member)
  local low = redis.call('ZCOUNT', index, '-inf', '(' .. score)
  local high = redis.call('ZCOUNT', index, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local found = redis.call('ZRANGE', index, middle, middle)[1]
    if found == member then return middle, middle + 1 end
    if in_front(found, member) then low = middle + 1 else high = middle end
  end
  return low, low
end

-- The first `limit` entries after (score, member), as member, score, …, upwards or downwards. Without a member, starts
-- at `score`.
local function page_behind(index, score, member, limit, downwards)
  local from, to
  if downwards then
    to = member == '' and redis.call('ZCOUNT', index, '-inf', score) or ranks(index, score, member)
    from = math.max(to - limit, 0)
    local page, found = {}, to > 0 and redis.call('ZRANGE', index, from, to - 1, 'WITHSCORES') or {}
    for i = #found - 1, 1, -2 do page[#page + 1], page[#page + 2] = found[i], found[i + 1] end
    return page
  end
  if member == '' then
    from = redis.call('ZCOUNT', index, '-inf', '(' .. score)
  else
    from = select(2, ranks(index, score, member))
  end
  return redis.call('ZRANGE', index, from, from + limit - 1, 'WITHSCORES')
end

-- Maximum entries of a ready queue searched per call for the last shown entry.
local MOST_LOOKED_THROUGH = 5000

-- A cursor in a ready queue: the position of an entry, the number of entries after it, and the entry itself.
local function queue_cursor(at, left, entry) return string.format('%.0f %.0f ', at, left) .. entry end

-- The first `limit` entries of a ready queue after a cursor, the position of the first, and the number from there on;
-- or, if more calls are needed, nothing and the cursor to continue with. Entries leave a queue only at its head: the
-- cursor's entry is at its old position, or before that, or gone with all its predecessors. Its time is no guide, since
-- the clock may have been set back. Entries added after the walk began are excluded, or a walk might never end.
local function queue_behind(queue, cursor, limit)
  local stood, left, last = string.match(cursor, '^(%d+) (%d+) (.*)$')
  stood, left = within(stood or '', 0, LAST_MS), within(left or '', 1, LAST_MS)
  local first = 0
  if cursor == '' then
    left = redis.call('LLEN', queue)
  elseif not stood or not left then
    refuse('no cursor of a ready queue: ' .. cursor)
  else
    local from = math.max(stood - MOST_LOOKED_THROUGH + 1, 0)
    local entries = redis.call('LRANGE', queue, from, stood)
    local at = #entries
    while at > 0 and entries[at] ~= last do at = at - 1 end
    if at == 0 and from > 0 then return {}, 0, 0, queue_cursor(from - 1, left, last) end
    first = at > 0 and from + at or 0
  end
  local wanted = math.min(limit, left)
  local entries = wanted > 0 and redis.call('LRANGE', queue, first, first + wanted - 1) or {}
  return entries, first, #entries < wanted and #entries or left
end
