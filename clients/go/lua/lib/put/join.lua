-- put/join: adds a message to its indexes: the group's, the expiries.
--
-- NEEDS    alarm, base, call, due, no
-- GIVES    join_indexes

local function join_indexes(id, expires, group)
  if group then call('ZADD', base .. 'g:' .. group, due, no .. ':' .. id) end
  if expires then
    alarm('expiries', expires)
    call('ZADD', base .. 'expiries', expires, no .. ':' .. id)
  end
end
