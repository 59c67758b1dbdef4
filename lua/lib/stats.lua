-- The counters of a topic's books. A counter that cannot be written stops nothing: a sweep sets it right.
local function count(counter, no, by)
  if by ~= 0 then redis.pcall('HINCRBY', base .. 'stats', counter .. ':' .. no, by) end
end
