-- put/each: puts one message.
--
-- NEEDS    accepted, ack, again, base, bucket_add, bucket_of, byte, call, check_fields, displace, due, due_of, earlier,
--          expire_after, fields, followed, gen, group_and_expiry, held, is_new, is_stale, join_indexes, key_of,
--          largest, lifetime_of, max_default, meet, merges, misnamed, no, note, now, pending_at, push_ready,
--          ready_stamp, receipt, record, sub, taken, topic, topic_open, tried, turn_behind, unblock, BLOCKS, DEAD,
--          DOOMED, EXPIRES, FORMAT, HASH, HEAD, INDEXED, LAST_MS, LIFETIME, PENDING, RELATIVE, STATE
-- CHANGES  accepted, due, is_new, largest
-- GIVES    put

local function put(id, text, env)
  local key = key_of .. id
  local found = call('EXISTS', key) == 1
  -- A missing message stays missing: the layout refuses a caller who still places the id here.
  if earlier and not found then return 'moved' end
  due = due_of(text)
  if not due then return 'refused due time' end
  local format, _, high, low = byte(env, 1, 4)
  if #env < 32 or format ~= FORMAT then return 'refused format' end
  local flags = high * 256 + low
  if flags % LIFETIME >= DOOMED or flags >= 2 * LIFETIME then return 'refused flags' end
  if flags > HASH or flags == HASH and #env < 40 then check_fields(env, flags) end
  high, low = byte(env, 31, 32)
  local max = high + low > 0 and high * 256 + low or max_default
  local pending, met, answer, old
  if merges then
    pending = found and pending_at(id)
    answer, max, env, flags, met = meet(id, pending, env, flags, max)
    if answer then return answer end
  end

  local expires, group
  local after = lifetime_of(env, flags) or expire_after
  -- An expiry past the last time never comes.
  if after > 0 and bit.band(flags, EXPIRES) == 0 and due + after <= LAST_MS then
    local before = bit.band(flags, HASH) > 0 and 40 or 32
    env = sub(env, 1, before) .. struct.pack('>I8', due + after) .. sub(env, before + 1)
    flags = flags + EXPIRES + RELATIVE
  end
  if bit.band(flags, INDEXED) > 0 then
    _, expires, _, group = fields(env, flags)
    if expires then
      -- A recorded delay that has passed is due at once; an expiry that has passed meanwhile ends the message.
      if record and text == '+0' then due = math.min(due, expires - 1) end
      if expires <= due then return 'refused expiry not after the due time' end
      if expires > LAST_MS then return 'refused expiry' end
    end
  end
  local wrong = misnamed(id, group)
  if wrong then return wrong end
  local direct = due <= now and not held

  local led
  if receipt then
    answer, led, old = followed(id, found, flags, env)
    if answer then return answer end
  elseif found then
    answer, old = taken(id, flags, env, max)
    if answer then return answer end
  elseif tried and is_stale(id) then
    return 'stale'
  end
  if is_new then
    topic_open(topic, no)
    is_new = false
  end
  join_indexes(id, expires, group)
  -- A failed message that stays where it is keeps its block.
  if pending and due == pending.due and bit.band(pending.flags, BLOCKS) > 0 and group == (group_and_expiry(pending)) then
    flags = flags + BLOCKS
  end
  local freed = old and flags < BLOCKS and turn_behind(old)
  local head = struct.pack(HEAD, FORMAT, PENDING, flags, gen(expires or group), due, now, 0, 0, max)
  local member = id .. sub(head, 5, 8)
  if direct then
    push_ready(no, member .. ready_stamp(), flags, group)
  else
    bucket_add(bucket_of(no, due), due, { due, member })
  end
  if old and old.state == DEAD then call('HDEL', base .. 'w:' .. no, id) end
  call('SET', key, head .. sub(env, 33))
  accepted, largest = accepted + 1, math.max(largest, #env)
  -- The message is stored: leftovers of its predecessor are stale.
  if old then
    pcall(displace, old, expires, group)
    unblock(old, freed)
  end
  if led then ack(led, old) end
  note(no, id, 'put %.0f %s', due, direct and 'ready' or 'stored')
  if pending then return again(direct and 'ready' or 'delayed', pending) end
  if met then return again(STATE[met.state], met) end
  return direct and 'ready' or 'stored'
end
