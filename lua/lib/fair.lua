-- Fair order: the messages of such a topic become ready in the list of their group, as if parked (see `turn.lua`), and `reserve`
-- gives the groups their turns one after another. The messages without a group take turns as one more group.
if any_fair then
  local append = make_ready

  -- The flags of an entry's message, and its group, or `NO_GROUP`; nil if they cannot be read.
  local function read_group(no, entry)
    -- See `gen.lua`: neither a group nor an expiry.
    if string.byte(entry, -8) % 2 == 0 then return 0, NO_GROUP end
    local env = redis.pcall('GETRANGE', base .. 'm:' .. no .. ':' .. string.sub(entry, 1, -12), '0', '559')
    if type(env) ~= 'string' or #env < 32 then return nil end
    local flags, at = struct.unpack('>I2', env, 3), 33
    if bit.band(flags, GROUP) == 0 then return flags, NO_GROUP end
    if bit.band(flags, HASH) > 0 then at = at + 8 end
    if bit.band(flags, EXPIRES) > 0 then at = at + 8 end
    if bit.band(flags, BACKOFF) > 0 then at = at + 1 + (string.byte(env, at) or 0) end
    local length = string.byte(env, at) or 0
    local group = string.sub(env, at + 1, at + length)
    if length > 0 and #group == length then return flags, group end
  end

  -- Appends entries to the list of a group; a failed message that blocks the group goes to the front. A group with a list has its
  -- turn, or waits for one. The turn comes first: see `park`.
  local function join_list(no, group, entries, leads)
    local list, groups, turns = base .. 'p:' .. no .. ':' .. group, base .. 'k:' .. no, base .. 'n:' .. no
    if leads or not redis.call('ZSCORE', groups, group) then
      local last = redis.call('ZRANGE', turns, '-1', '-1', 'WITHSCORES')[2]
      local is_new = redis.call('ZADD', turns, 'NX', math.max(now_us, (last or 0) + 1), group) == 1
      redis.call('ZADD', groups, 'NX', now, group)
      if is_new and not last then redis.call('SPUBLISH', base .. 'ready', redis.call('HGET', base .. 't:' .. no, 'name') or '') end
    end
    redis.call(leads and 'LPUSH' or 'RPUSH', list, unpack(entries))
    redis.pcall('HINCRBY', base .. 'stats', 'ready:' .. no, #entries)
  end

  -- Takes the flags and the group (nil without) of all entries, unless these are to be read. What fits no list goes to the ready
  -- queue, from where `reserve` takes it.
  make_ready = function(no, entries, flags, group)
    if redis.pcall('HGET', base .. 't:' .. no, 'group_order') ~= 'fair' then return append(no, entries) end
    local rest, lists, order = {}, {}, {}
    for _, entry in ipairs(entries) do
      local its_flags, its_group = flags, group or NO_GROUP
      if not flags then its_flags, its_group = read_group(no, entry) end
      if not its_flags then
        rest[#rest + 1] = entry
      elseif bit.band(its_flags, BLOCKS) > 0 then
        order[#order + 1] = { its_group, { entry }, true }
      elseif lists[its_group] then
        lists[its_group][#lists[its_group] + 1] = entry
      else
        lists[its_group] = { entry }
        order[#order + 1] = { its_group, lists[its_group], false }
      end
    end
    for _, one in ipairs(order) do
      if not pcall(join_list, no, unpack(one)) then
        for _, entry in ipairs(one[2]) do rest[#rest + 1] = entry end
      end
    end
    return append(no, rest)
  end
end
