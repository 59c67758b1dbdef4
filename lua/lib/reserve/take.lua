-- reserve/take: takes messages of any kind from one topic.
--
-- NEEDS    alarm, answer, base, begun, blocked, blocking, bytes, call, charge, come_back, count, drop, gen, gen_bytes,
--          gens, group_in, has_to_wait, is_blocked, leads, leased_head, limit, look, looks, max_bytes, newer, note,
--          note_lease, now, park, room_of, rooms, set_aside, spend, sub, wanted, who, HASH, INDEXED, NO_GROUP
-- CHANGES  blocked, bytes, looks, newer, wanted
-- GIVES    drop_unleased, take

-- Hands out the messages of `heads` (key, head, …) under their leases (end, receipt, …). Leases come first: a lease
-- whose message was not handed out ends by itself, a message without a lease would be stuck. So does the counter: see
-- `lease.lua`. `flights` are the groups and receipts that count in a limit.
local function lease_out(no, leases, heads, until_ms, flights)
  note_lease(until_ms - now)
  alarm('leases', until_ms)
  redis.call('ZADD', base .. 'leases', unpack(leases))
  redis.call('HINCRBY', base .. 'stats', 'leased:' .. no, #heads / 2)
  for i = 1, #flights, 2 do redis.call('ZADD', base .. 'f:' .. no .. ':' .. flights[i], now, flights[i + 1]) end
  for i = 1, #heads, 2 do call('SETRANGE', heads[i], '0', heads[i + 1]) end
  for i = 1, #heads, 2 do
    local _, attempt = struct.unpack('>I4I2', heads[i + 1], 25)
    note(no, sub(heads[i], #base + #no + 4), 'leased %d %.0f %s', attempt, until_ms, who)
  end
end

-- Drops the messages behind the leased ones from the answer for the topic at hand.
local function drop_unleased()
  for i = #answer, begun + 4 + 3 * answer[begun + 3], -1 do answer[i] = nil end
end

-- Takes up to `n` from one topic, or of the parked messages of one group. Returns the number taken, true if the list
-- ends there, and true if the head of the list has to wait for a failed message of the group. Entries are read first, and leave
-- the list once all are settled: an error in between leaves stale entries, never a lost one.
local function take(no, n, until_ms, parked)
  local queue, prefix = base .. (parked and 'p:' .. no .. ':' .. parked or 'r:' .. no), base .. 'm:' .. no .. ':'
  local entries = redis.call('LRANGE', queue, 0, n - 1)
  if #entries == 0 then return 0, true end
  gens(#entries)
  local keys = {}
  for i = 1, #entries do keys[i] = prefix .. sub(entries[i], 1, -12) end
  local large, envs, before, behind = tonumber(redis.call('HGET', base .. 't:' .. no, 'large') or nil), nil, 0, 0
  local leases, heads, back, met, seen, gone, taken = {}, {}, {}, {}, 0, 0, 0
  local flights, later, stopped = {}, {}, false
  local until_text, until_bytes = string.format('%.0f', until_ms), struct.pack('>I8', until_ms)
  local receipt_start, stamp, ready_us = no .. ':', nil, nil

  -- A message that cannot be handled now comes back in ten seconds.
  local function put_off(entry, env)
    newer = newer + 1
    if pcall(set_aside, no, entry, env) then gone = gone + 1 else back[#back + 1] = entry end
  end

  for i = 1, #entries do
    if bytes >= max_bytes then break end
    if i > behind then
      before, behind = behind, large and math.min(behind + math.max(math.floor((max_bytes - bytes) / large), 1), #keys) or #keys
      envs = redis.call('MGET', unpack(keys, i, behind))
    end
    local entry, env, key = entries[i], envs[i - before], keys[i]
    local word, flags = look(entry, env)
    -- An interrupted pump may have left an entry twice.
    if met[key] then word = 'stale' elseif word ~= 'stale' then met[key] = true end
    local group = limit and word == 'ready' and (parked or group_in(env, flags))
    local sound, waiting = true, false
    if group and not parked then sound, waiting = pcall(has_to_wait, no, group, flags) end
    -- Parked messages that lead stand in front.
    stopped = parked and group and is_blocked(no, group) and not leads(flags)
    if stopped then break end
    seen = i
    if sound and waiting then
      later[#later + 1] = { group, entry, flags, env }
    elseif sound and word == 'ready' then
      local g = gen_bytes(gen(flags > HASH and bit.band(flags, INDEXED) > 0))
      local receipt = receipt_start .. sub(entry, 1, -12) .. g
      heads[2 * taken + 1], heads[2 * taken + 2] = key, leased_head(env, g, until_bytes)
      leases[2 * taken + 1], leases[2 * taken + 2] = until_text, receipt
      local ready = sub(entry, -7)
      if ready ~= stamp then stamp, ready_us = ready, struct.unpack('>I7', ready) end
      local a = #answer
      answer[a + 1], answer[a + 2], answer[a + 3] = ready_us, receipt, env
      taken, bytes = taken + 1, bytes + #env
      if group then
        rooms[group] = room_of(no, group) - 1
        spend(group)
        if limit < math.huge and group ~= NO_GROUP then flights[#flights + 1], flights[#flights + 2] = group, receipt end
      end
    else
      local ok, counted = false, true
      if sound and word ~= 'newer' then ok, counted = pcall(drop, no, sub(entry, 1, -12), word) end
      if not ok then put_off(entry, env) elseif counted then gone = gone + 1 end
      if word == 'expired' and blocking then
        -- The message may have blocked a group.
        blocked = {}
        come_back(0)
      end
    end
  end
  for _, one in ipairs(later) do
    if not pcall(park, no, one[1], one[2], one[3]) then put_off(one[2], one[4]) end
  end
  if taken > 0 then
    lease_out(no, leases, heads, until_ms, flights)
    charge(no)
  end
  answer[begun + 3], wanted, looks = answer[begun + 3] + taken, wanted - taken, looks - seen
  if #back > 0 then redis.call('RPUSH', queue, unpack(back)) end
  redis.call('LTRIM', queue, seen, '-1')
  count('ready', no, -taken - gone)
  return taken, #entries < n or #back > 0, stopped
end
