-- reserve/turns: takes parked messages of the groups whose turn has come.
--
-- NEEDS    base, bytes, come_back, is, looks, max_bytes, now, room_of, take, wanted
-- CHANGES  looks, wanted
-- GIVES    take_parked

-- Takes parked messages of one group, as far as the group and the call have room. Returns the number taken.
local function take_from(no, group, most, until_ms)
  local list, taken = 'p:' .. no .. ':' .. group, 0
  while wanted > taken and most > taken and looks > 0 and bytes < max_bytes and room_of(no, group) > 0 do
    local got, seen = take(no, math.min(wanted - taken, most - taken, looks, room_of(no, group)), until_ms, group)
    taken, looks = taken + got, looks - seen
    if redis.call('EXISTS', base .. list) == 0 then break end
  end
  return taken
end

-- Takes up to `most` parked messages, the groups in the order of their turns. A turn ends when its group is full or has no
-- parked message left; the end of a lease gives the next turn.
local function take_parked(no, most, until_ms)
  local turns, taken = base .. 'n:' .. no, 0
  local visits = math.min(wanted, most)
  local groups = visits > 0 and redis.call('ZRANGE', turns, '0', visits - 1) or {}
  for _, group in ipairs(groups) do
    if taken >= most or wanted <= 0 or looks <= 0 or bytes >= max_bytes then break end
    local list = 'p:' .. no .. ':' .. group
    if not is('list', list) then
      redis.call('ZADD', turns, now, group)
    else
      local got = take_from(no, group, most - taken, until_ms)
      taken, wanted = taken + got, wanted - got
      if redis.call('EXISTS', base .. list) == 0 then
        redis.call('ZREM', base .. 'k:' .. no, group)
        redis.call('ZREM', turns, group)
      elseif room_of(no, group) < 1 then
        redis.call('ZREM', turns, group)
      end
    end
  end
  if visits > 0 and #groups == visits and most > taken and wanted > 0 then come_back(0) end
  return taken
end
