-- True if the parked messages of a group wait for a failed message, and do not begin with one.
local function waits_for_failed(no, group)
  if redis.pcall('HGET', base .. 't:' .. no, 'group_failed') ~= 'block' then return false end
  local head = redis.pcall('LRANGE', base .. 'p:' .. no .. ':' .. group, 0, 0)[1] or ''
  local m = read(no, string.sub(head, 1, -12))
  if m and gen_bytes(m.gen) == string.sub(head, -11, -8) and bit.band(m.flags, BLOCKS) > 0 then return false end
  local failed = redis.pcall('ZRANGE', base .. 'x:' .. no, '[' .. group .. '\31', '(' .. group .. '\32', 'BYLEX', 'LIMIT', 0, MOST_IDS)
  for _, member in ipairs(failed) do
    if not leads_nowhere('x:' .. no, member) then return true end
  end
  return false
end

-- True if the parked messages of a group would wait for ever: their list is in no index, or the group has neither a turn nor a
-- message in flight, is not paused, and waits for no token and no failed message.
local function is_stranded(index)
  local no, group = string.match(index, '^p:(%d+):(.*)$')
  if not no or redis.call('EXISTS', base .. index) == 0 then return false end
  if not has_entry('k:' .. no, group) then return true end
  for _, kind in ipairs({ 'n:', 'q:', 'y:' }) do if has_entry(kind .. no, group) then return false end end
  for _, receipt in ipairs(redis.pcall('ZRANGE', base .. 'f:' .. no .. ':' .. group, 0, MOST_IDS - 1)) do
    if not leads_nowhere('f:' .. no .. ':' .. group, receipt) then return false end
  end
  return not waits_for_failed(no, group)
end
