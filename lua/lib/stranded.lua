-- True if the parked messages of a group would wait for ever: their list is in no index, or the group has neither a turn nor a
-- message in flight, and is not paused.
local function is_stranded(index)
  local no, group = string.match(index, '^p:(%d+):(.*)$')
  if not no or redis.call('EXISTS', base .. index) == 0 then return false end
  if not has_entry('k:' .. no, group) then return true end
  if has_entry('n:' .. no, group) or has_entry('q:' .. no, group) then return false end
  for _, receipt in ipairs(redis.pcall('ZRANGE', base .. 'f:' .. no .. ':' .. group, 0, MOST_IDS - 1)) do
    if not leads_nowhere('f:' .. no .. ':' .. group, receipt) then return false end
  end
  return true
end
