-- pump/expiry: removes an expired message.
--
-- NEEDS    buried, expired, finish, is_whole, kill_malformed, read, unplace, PENDING
-- CHANGES  buried, expired
-- GIVES    expire

local function expire(name)
  local no, id = string.match(name, '^(%d+):(.*)$')
  local m, why = read(no or '', id or '')
  if why == 'newer' then error('newer') end
  if not m or m.state ~= PENDING then return end
  if is_whole(m) then
    finish(m, 'expired')
    expired = expired + 1
  else
    kill_malformed(no, id)
    buried = buried + 1
  end
  unplace(m)
end
