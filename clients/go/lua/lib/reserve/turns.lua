-- reserve/turns: takes parked messages of the groups whose turn has come.
--
-- NEEDS    await_token, base, bytes, come_back, drop_unleased, fair, is_blocked, looks, max_bytes, next_turn, room_of,
--          take, wanted
-- GIVES    take_parked

-- Takes parked messages of one group, as far as the group and the call have room. Returns the number taken, and true if a
-- failed message blocks the rest.
local function take_from(no, group, most, until_ms)
  local taken, over, stopped = 0, false, false
  while not over and not stopped and wanted > 0 and most > taken and looks > 0 and bytes < max_bytes and room_of(no, group) > 0 do
    local room = is_blocked(no, group) and 1 or room_of(no, group)
    local got
    got, over, stopped = take(no, math.min(wanted, most - taken, looks, room), until_ms, group)
    taken = taken + got
  end
  return taken, stopped
end

-- Takes up to `most` parked messages, the groups in the order of their turns. A turn ends when its group is full or blocked,
-- or has no parked message left; the end of a lease or of a block gives the next turn. In fair order the groups share what is
-- wanted, and each waits behind the others then. So does a group with a fault.
local function take_parked(no, most, until_ms)
  local turns, taken = base .. 'n:' .. no, 0
  local visits = math.min(wanted, most)
  local groups = visits > 0 and redis.call('ZRANGE', turns, '0', visits - 1) or {}
  local waiting = groups
  while waiting do
    local share = fair and math.max(math.floor(math.min(wanted, most - taken) / #waiting), 1) or most
    local again
    for _, group in ipairs(waiting) do
      if taken >= most or wanted <= 0 or looks <= 0 or bytes >= max_bytes then break end
      local sound, got, stopped = pcall(take_from, no, group, math.min(share, most - taken), until_ms)
      if not sound then
        drop_unleased()
        redis.call('ZADD', turns, next_turn(no), group)
      else
        taken = taken + got
        if redis.call('EXISTS', base .. 'p:' .. no .. ':' .. group) == 0 then
          redis.call('ZREM', base .. 'k:' .. no, group)
          redis.call('ZREM', turns, group)
        elseif stopped or room_of(no, group) < 1 then
          await_token(no, group)
          redis.call('ZREM', turns, group)
        elseif fair then
          redis.call('ZADD', turns, next_turn(no), group)
          again = again or {}
          again[#again + 1] = group
        end
      end
    end
    waiting = taken < most and wanted > 0 and looks > 0 and bytes < max_bytes and again or nil
  end
  if visits > 0 and #groups == visits and most > taken and wanted > 0 then come_back(0) end
  return taken
end
