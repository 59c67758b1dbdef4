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

-- The time of a ready queue's entry at a place, in bytes; nil behind its end.
local function ready_since(queue, rank)
  local entry = redis.call('LRANGE', queue, rank, rank)[1]
  return entry and string.sub(entry, -7)
end

-- The first place in a ready queue whose entry is ready since `time` or later.
local function first_since(queue, time)
  local low, high = 0, 500
  local there = ready_since(queue, high)
  while there and in_front(there, time) do
    low, high = high + 1, 2 * high
    there = ready_since(queue, high)
  end
  while low < high do
    local middle = math.floor((low + high) / 2)
    there = ready_since(queue, middle)
    if there and in_front(there, time) then low = middle + 1 else high = middle end
  end
  return low
end

-- The first `limit` entries of a ready queue behind `last`. Where that one is gone, all in front of it are too: then those
-- from its time on.
local function queue_behind(queue, last, limit)
  local first = last == '' and 0 or first_since(queue, string.sub(last, -7))
  if last ~= '' then
    -- What is ready since the same time stands together: at most what single calls made ready.
    for at, entry in ipairs(redis.call('LRANGE', queue, first, first + 999)) do
      if entry == last then return redis.call('LRANGE', queue, first + at, first + at + limit - 1) end
    end
  end
  return redis.call('LRANGE', queue, first, first + limit - 1)
end
