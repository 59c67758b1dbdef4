-- Where a page begins: behind the entry that was shown last, whether that is still there or not. A rank is no cursor:
-- whatever leaves in front of it lets all that follow move up, and the page passes them over.

-- Whether one member stands in front of another of the same score: by bytes, where Lua's own `<` goes by the locale.
local function in_front(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then return a < b end
  end
  return #one < #other
end

-- How many entries of a sorted set stand in front of (score, member), and how many up to it, itself included.
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

-- The first `limit` entries behind (score, member), as member, score, …, upwards or downwards. Where no member is given,
-- those from `score` on.
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

-- How many entries of a ready queue one call looks through for the one that was shown last.
local MOST_LOOKED_THROUGH = 5000

-- A cursor in a ready queue: the place of an entry, how many were left behind it, and the entry itself.
local function queue_cursor(at, left, entry) return string.format('%.0f %.0f ', at, left) .. entry end

-- The first `limit` entries of a ready queue behind a cursor, the place of the first, and how many are left from there on; where
-- more than one call is needed to find out, none and the cursor to go on with.
-- Entries leave a queue at its head alone: the one of the cursor stands at its place still, or in front of it, or is gone with all
-- in front of it. Its time tells nothing, since the clock may have been set back. What comes in behind those that were there at
-- first is left out, or a walk would not end.
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
