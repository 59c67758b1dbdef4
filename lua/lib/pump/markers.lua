-- pump/markers: forgets the names in `markers`: markers outside the lists, cursors of shifts, histories.
--
-- NEEDS    base, block, blocked, call, find, forgotten, is_large, now, rearm, starts_of, trim_history, DEAD, FORMAT,
--          STATE
-- CHANGES  blocked, forgotten
-- GIVES    pump_markers

-- Handles the first entries of `markers` whose time has passed: cursors of shifts, histories, and markers outside the
-- lists. After an interruption an id may have been put again: the stored value is then not a marker, and stays.
local function pump_markers(n)
  local names, bodies = redis.pcall('ZRANGEBYSCORE', base .. 'markers', '-inf', now, 'LIMIT', 0, n), base .. 'm:'
  if names.err then return block('markers') end
  local keys, gone, later, any_large = {}, {}, {}, false
  for i = 1, #names do
    local no = string.match(names[i], '^(%d+):')
    keys[i], any_large = (no and bodies or base) .. names[i], any_large or no and is_large(no)
  end
  local markers = names[1] and starts_of(keys, any_large) or names
  for i = 1, #names do
    local marker = markers[i]
    local format, state = string.byte(marker or '', 1, 2)
    local whole = format and #marker >= 32
    if whole and format == FORMAT and state > DEAD and STATE[state] then
      gone[#gone + 1], forgotten = keys[i], forgotten + 1
    elseif whole and format > FORMAT and state > DEAD then
      later[#later + 1], later[#later + 2] = now + 10000, names[i]
      blocked = blocked + 1
    elseif find(names[i], '^shift:') then
      gone[#gone + 1] = keys[i]
    elseif find(names[i], '^h:%d+$') then
      local again = trim_history(string.sub(names[i], 3))
      if again then later[#later + 1], later[#later + 2] = string.format('%.0f', again), names[i] end
    end
  end
  if gone[1] then call('UNLINK', unpack(gone)) end
  if later[1] then call('ZADD', base .. 'markers', unpack(later)) end
  if #names > #later / 2 then call('ZREMRANGEBYRANK', base .. 'markers', '0', #names - #later / 2 - 1) end
  rearm('markers', call('ZRANGE', base .. 'markers', '0', '0', 'WITHSCORES')[2])
end
