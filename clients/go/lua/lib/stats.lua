-- The counters of a topic's books.
local function count(counter, no, by)
  if by ~= 0 then redis.call('HINCRBY', base .. 'stats', counter .. ':' .. no, by) end
end
