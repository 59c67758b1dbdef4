#!lua
-- put: takes new messages of one topic in.
--
-- MOVES    nothing -> DELAYED, or -> READY where already due and the shard is not held
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, then 4 a message (1 to 500): id, due, options, envelope
--            id        16 raw bytes of a UUIDv7; or text of 1 to 128 bytes, of a message in a group with 0x1F and the
--                      group behind it
--            due       ms since the epoch, or "+" and a delay in ms, on this Redis's clock
--            options   words parted by a space: replace, tried=<ms since the epoch, on this Redis's clock: when the
--                      first try began, whose answer was lost>, earlier (the id belongs elsewhere since the
--                      deployment grew: `moved` where it is not here), record=<16 hex digits> (a recorded write, which
--                      may be sent again: one that was carried out gets its first answer)
--            envelope  see docs/protocol.md; state, gen, due, at, delivery, attempt are filled in here
-- RETURNS  now_us, then one answer a message: stored | ready | exists <state> <ms> | conflict <state> <ms> |
--          leased | stale | moved (not here: put it where it belongs now) | refused <why>; <ms> is the due time of
--          what is pending, the end of what is over
-- COST     O(log n) a message, n = the topic's messages of that hour
local registry = redis.pcall('HMGET', KEYS[1], 'layout', 'hold', 'topic:' .. tostring(ARGV[2]))
local layout, held, no = registry[1], registry[2], registry[3]
--# include now, shard, limits, defaults, format, nearest

local topic, last = ARGV[2], #ARGV
if last % 4 ~= 2 or last < 6 or last > 2 + 4 * MOST_IDS then
--# include arguments
  arguments('put', 2, 4)
end
local call, byte, sub, find = redis.call, string.byte, string.sub, string.find
local answers, accepted, at = { now_us, nil }, 0, 3

-- First the plain messages, as many as the call begins with, and all of them together, without a function of their own:
-- making one costs as much as a command. Plain is a message of a known topic that adds no expiry, whose id is free, without
-- options but a record that was not carried out, and without fields that a script looks at but a hash and a group.
local terms = no and redis.pcall('HMGET', base .. 't:' .. no, 'max_attempts', 'expire_after_ms', 'history', 'durability', 'large') or nil
if terms and terms[4] then
--# include durability
  must_wait(no, topic)
end
local any_history, events = terms and terms[3] and terms[3] ~= '0', nil
local plain = terms and not terms.err and (not terms[2] or tonumber(terms[2]) == 0)
-- What they add: keys and bodies, buckets with scores and members, ready entries, groups' keys with score and name.
local keys, bodies, buckets, entries, joined, met
local max_default, free, last_gen, usual_max, unleased
-- The largest envelope of the call.
local largest = 0
-- The records of a call, most often of all its messages or of none, and what `once.lua` keeps of those that are carried out.
local records, carried
for i = 5, plain and find(ARGV[5], '^record=') and last or 0, 4 do
  records = records or { nil }
  records[#records + 1] = string.match(ARGV[i], '^record=(%x+)$')
end
if records then
  local before = redis.pcall('HMGET', base .. 'carried', unpack(records))
  plain = not before.err and #records * 4 == last - 2
  for i = 1, #before do plain = plain and not before[i] end
end
if plain then
  max_default = tonumber(terms[1]) or MAX_ATTEMPTS
  -- What all heads have behind the due time: now, and nothing of a lease.
  usual_max, unleased = struct.pack('>I2', max_default), struct.pack('>I8', now) .. '\0\0\0\0\0\0'
  local key_of = base .. 'm:' .. no .. ':'
  keys = { key_of .. ARGV[3] }
  for i = 7, last, 4 do keys[#keys + 1] = key_of .. ARGV[i] end
  -- Most often one look is enough for all.
  free = call('EXISTS', unpack(keys)) == 0
  -- The gen that was given last. The counter goes by two, since the lowest bit says something of its own.
  last_gen = call('HINCRBY', KEYS[1], 'gen', last == 6 and '2' or 2 * #keys) - 2 * #keys
  bodies, buckets = { nil, nil }, {}
end
-- The due time that was read last, as text for a score and in bytes, and its bucket: the messages of a call often share them.
local due_text, due, score, due_bytes, hour_start, bucket
while plain and at <= last do
  local id, text, env, key = ARGV[at], ARGV[at + 1], ARGV[at + 3], keys[accepted + 1]
  if text ~= due_text then
    due_text, due, score = text, nil, text
    if find(text, '^%d+$') then
      due = tonumber(text)
    elseif find(text, '^%+%d+$') then
      due = now + sub(text, 2)
      -- A number would be formatted again for each command.
      score = string.format('%d', due)
    end
    if not due or due == 0 or due > LAST_MS then break end
    due_bytes = struct.pack('>I8', due)
    if due <= now and not held then
      -- What is due already has none.
      bucket, hour_start = nil, nil
    elseif due - due % 3600000 ~= hour_start then
      -- As `hour.lua` names it.
      hour_start = due - due % 3600000
      bucket = string.format('b:%s:%d', no, hour_start / 3600000)
    end
  end
  local format, _, high, low = byte(env, 1, 4)
  local record = records and records[accepted + 1]
  if not record and ARGV[at + 2] ~= '' or record and #record ~= 16 or #env < 32 or format ~= FORMAT then break end
  if met and met[key] or not free and call('EXISTS', key) == 1 then break end
  local flags, group, rest = high * 256 + low, nil, 33
  if flags % 2 == HASH then rest = 41 end
  if flags > HASH then
    if bit.band(flags, bit.bnot(HASH + GROUP + HEADERS + ZSTD)) ~= 0 then break end
    if bit.band(flags, GROUP) ~= 0 then
      local length = byte(env, rest) or 0
      group, rest = sub(env, rest + 1, rest + length), rest + 1 + length
      if length == 0 or length > 128 or find(group, '[^\32-\126]') then break end
    end
  end
  if rest > #env + 1 then break end
  if #env > largest then largest = #env end

  local max = sub(env, 31, 32)
  if max == '\0\0' then max = usual_max end
  last_gen = last_gen + 2
  local gen_bytes = struct.pack('>I4', (last_gen + (group and 1 or 0)) % 4294967296)
  local member, n = id .. gen_bytes, 2 * accepted
  accepted = accepted + 1
  if last > 6 then
    met = met or {}
    met[key] = true
  end
  -- '\1\1': FORMAT and PENDING.
  bodies[n + 1], bodies[n + 2] = key, '\1\1' .. sub(env, 3, 4) .. gen_bytes .. due_bytes .. unleased .. max .. sub(env, 33)
  if group then
    joined = joined or {}
    n = #joined
    joined[n + 1], joined[n + 2], joined[n + 3] = base .. 'g:' .. group, score, no .. ':' .. id
  end
  local members = bucket and buckets[bucket]
  if members then
    n = #members
    members[n + 1], members[n + 2] = score, member
    if due < members.first then members.first, members.score = due, score end
  elseif bucket then
    buckets[bucket] = { score, member, first = due, score = score }
  else
    entries = entries or { nil }
    entries[#entries + 1] = member .. struct.pack('>I7', now_us)
  end
  local word = bucket and 'stored' or 'ready'
  answers[accepted + 1] = word
  if record then
    carried = carried or { nil }
    n = #carried
    carried[n + 1], carried[n + 2] = record, string.format('%.0f %s', now, word)
  end
  at = at + 4
end

if accepted > 0 then
  -- One after another until one fails, most often because a key is of the wrong type.
  local counted, queued, length = redis.pcall('HINCRBY', base .. 'stats', 'accepted:' .. no, accepted == 1 and '1' or accepted)
  local failed = type(counted) == 'table'
  for name, members in pairs(buckets) do
    local nearer = failed or redis.pcall('ZADD', base .. 'alarms', 'LT', 'CH', members.score, name)
    if nearer == 1 and (not nearest or members.first < nearest) then nearest = members.first end
    failed = failed or type(nearer) == 'table' or type(redis.pcall('ZADD', base .. name, unpack(members))) == 'table'
  end
  for i = 1, joined and #joined or 0, 3 do
    failed = failed or type(redis.pcall('ZADD', joined[i], joined[i + 1], joined[i + 2])) == 'table'
  end
  if entries and not failed then
    queued = redis.pcall('HINCRBY', base .. 'stats', 'ready:' .. no, #entries)
    length = type(queued) == 'number' and redis.pcall('RPUSH', base .. 'r:' .. no, unpack(entries))
    failed = type(length) ~= 'number'
  end
  -- The bodies come last, with one command: a put that is cut off leaves stale entries, and never a message that a repeat
  -- finds and nothing leads to.
  if not failed then
    call('MSET', unpack(bodies))
    if carried then call('HSET', base .. 'carried', unpack(carried)) end
    -- Now and then, since a Redis that was started again has lists.
    if counted % 1024 < accepted then
--# include tables
    end
    if entries and length == #entries then redis.call('SPUBLISH', base .. 'ready', topic) end
    if any_history then
      events = { nil }
      for i = 1, accepted do
        local what = string.format('put %.0f %s', struct.unpack('>I8', bodies[2 * i], 9), answers[i + 1])
        events[3 * i - 2], events[3 * i - 1], events[3 * i] = no, ARGV[4 * i - 1], what
      end
    end
  else
    -- Out again with all of them: below, each message is told what it met.
    for name, members in pairs(buckets) do
      for i = 2, #members, 2 do redis.pcall('ZREM', base .. name, members[i]) end
    end
    for i = 1, joined and #joined or 0, 3 do redis.pcall('ZREM', joined[i], joined[i + 2]) end
    if type(counted) == 'number' then call('HINCRBY', base .. 'stats', 'accepted:' .. no, -accepted) end
    if type(queued) == 'number' then call('HINCRBY', base .. 'stats', 'ready:' .. no, -#entries) end
    at, answers = 3, { now_us }
  end
end

-- Then the others, one by one, from the first on that is not plain.
if at <= last then
local function one_by_one()
--# include hour, due, type, names, topic, topic_new, fields, policy, stats, alarm, gen, envelope, bucket, backoff, stale, ready, push, note, ends, finish, once

must_be('hash', 'stats')
gens((last - at + 1) / 4)
local is_new, expire_after
no, is_new = topic_number(topic)
local key_of = base .. 'm:' .. no .. ':'
max_default, expire_after = policies(no, 'max_attempts', 'expire_after_ms')
accepted = 0

-- The options that were read last: the messages of a call often share them.
local options_text, replace, earlier, tried, record = '', false, false, nil, nil
local function read_options(options)
  options_text, replace, earlier, tried, record = nil, false, false, nil, nil
  for word in string.gmatch(options, '%S+') do
    if word == 'replace' then
      replace = true
    elseif word == 'earlier' then
      earlier = true
    elseif string.find(word, '^record=%x+$') and #word == 23 then
      record = sub(word, 8)
    else
      tried = due_of(string.match(word, '^tried=(%d+)$') or '')
      if not tried then error({ err = 'option ' .. readable(word) }) end
    end
  end
  options_text = options
end

-- What keeps a message whose id is taken out: an answer, or nil and what it replaces.
local function taken(id, flags, env)
  local m, why = read(no, id)
  if not m then return 'conflict ' .. why .. ' 0' end
  if replace and m.state > DEAD then must_be('zset', 'markers') end
  if replace and m.state == LEASED then return 'leased' end
  local same = bit.band(flags, HASH) == 0 or sub(m.env, 33, 40) == sub(env, 33, 40)
  -- What was over only after the first try was put by it: replacing that would deliver it again.
  local was_put = tried and same and m.state >= DEAD and m.at > tried
  if not replace or was_put then
    local time = m.state <= LEASED and m.due or m.at
    return string.format('%s %s %.0f', same and 'exists' or 'conflict', state_of(m), time)
  end
  index_check(m)
  if m.state == DEAD then must_be('zset', 'd:' .. no) end
  if m.state == PENDING then bucket_check(no, m.due) end
  return nil, m
end

-- Takes a message that was replaced out of where it was, but for the indexes that have the new one.
local function displace(old, expires, group)
  local name = no .. ':' .. old.id
  if old.state > DEAD then
    call('ZREM', base .. 'markers', name)
    return
  end
  if old.state == PENDING then unplace(old) end
  if old.state == DEAD then call('ZREM', base .. 'd:' .. no, old.id .. gen_bytes(old.gen)) end
  local _, had_expiry, _, had_group = fields(old.env, old.flags)
  if had_expiry and not expires then call('ZREM', base .. 'expiries', name) end
  if had_group and had_group ~= group then call('ZREM', base .. 'g:' .. had_group, name) end
  count('replaced', no, 1)
  note(no, old.id, 'replaced')
end

-- Whether the topic refuses a repeat that finds nothing, because it may have forgotten how the first try ended.
local function is_stale(id)
  if call('HGET', base .. 't:' .. no, 'repeats') ~= 'refuse' then return false end
  local remember = generated(id) and 'remember_generated_ms' or 'remember_own_ms'
  return tried + math.min(policies(no, 'remember_cancelled_ms', remember)) <= now
end

-- Adds a message to its indexes: the group's, the expiries.
local function join_indexes(id, expires, group)
  if group then call('ZADD', base .. 'g:' .. group, due, no .. ':' .. id) end
  if expires then
    alarm('expiries', expires)
    call('ZADD', base .. 'expiries', expires, no .. ':' .. id)
  end
end

-- Refuses an envelope whose optional fields cannot be read back.
local function check_fields(env, flags)
  local _, _, backoff, _, rest = fields(env, flags)
  if rest > #env + 1 then error('fields are cut short') end
  if backoff and not is_backoff(backoff) then error('back-off') end
end

-- Why a stored id breaks the rules, or nil: an own id ends in its group, or no call by id would find the message.
local function misnamed(id, group)
  if group and not is_printable(group, 128) then return 'refused group ' .. readable(group) end
  if generated(id) then return nil end
  local own = id
  if group then
    if #id < #group + 2 or sub(id, -1 - #group) ~= '\31' .. group then return 'refused id without its group' end
    own = sub(id, 1, -2 - #group)
  end
  return not is_printable(own, 128) and 'refused id ' .. readable(own) or nil
end

local function put(id, text, env)
  local key = key_of .. id
  local found = call('EXISTS', key) == 1
  -- What is missing here stays so: a caller who still believes that the id belongs here is refused by the layout.
  if earlier and not found then return 'moved' end
  due = due_of(text)
  if not due then return 'refused due time' end
  local format, _, high, low = byte(env, 1, 4)
  if #env < 32 or format ~= FORMAT then return 'refused format' end
  local flags = high * 256 + low
  if flags >= DOOMED then return 'refused flags' end
  if flags > HASH or flags == HASH and #env < 40 then check_fields(env, flags) end
  high, low = byte(env, 31, 32)
  local max = high + low > 0 and high * 256 + low or max_default

  local expires, group
  -- What would expire past all times that can be told never does.
  if expire_after > 0 and bit.band(flags, EXPIRES) == 0 and due + expire_after <= LAST_MS then
    local before = bit.band(flags, HASH) > 0 and 40 or 32
    env = sub(env, 1, before) .. struct.pack('>I8', due + expire_after) .. sub(env, before + 1)
    flags = flags + EXPIRES + RELATIVE
  end
  if bit.band(flags, INDEXED) > 0 then
    _, expires, _, group = fields(env, flags)
    if expires then
      -- A recorded delay that has passed is due at once; an expiry that has passed meanwhile is the message's end.
      if record and text == '+0' then due = math.min(due, expires - 1) end
      if expires <= due then return 'refused expiry not after the due time' end
      if expires > LAST_MS then return 'refused expiry' end
      must_be('zset', 'expiries')
    end
    if group then must_be('zset', 'g:' .. group) end
  end
  local wrong = misnamed(id, group)
  if wrong then return wrong end
  local direct = due <= now and not held
  if direct then must_be('list', 'r:' .. no) else bucket_check(no, due) end

  local answer, old
  if found then
    answer, old = taken(id, flags, env)
    if answer then return answer end
  elseif tried and is_stale(id) then
    return 'stale'
  end
  if is_new then
    topic_open(topic, no)
    is_new = false
  end
  join_indexes(id, expires, group)
  local head = struct.pack(HEAD, FORMAT, PENDING, flags, gen(expires or group), due, now, 0, 0, max)
  local member = id .. sub(head, 5, 8)
  if direct then
    push_ready(no, { member .. ready_stamp() })
  else
    bucket_add(bucket_of(no, due), due, { due, member })
  end
  call('SET', key, head .. sub(env, 33))
  accepted, largest = accepted + 1, math.max(largest, #env)
  -- It is stored: what cannot be taken away of the one before is stale.
  if old then pcall(displace, old, expires, group) end
  note(no, id, 'put %.0f %s', due, direct and 'ready' or 'stored')
  return direct and 'ready' or 'stored'
end

while at <= last do
  local ok, word = pcall(function()
    if ARGV[at + 2] ~= options_text then read_options(ARGV[at + 2]) end
    return once(record, function() return put(ARGV[at], ARGV[at + 1], ARGV[at + 3]) end)
  end)
  -- A fault refuses the one message, and the others go on behind it.
  if not ok then word = 'refused ' .. (type(word) == 'table' and word.err or word) end
  answers[#answers + 1], at = word, at + 4
end
trim_ready()
-- Whatever has become of the counter, these are stored. A sweep sets it right.
if accepted > 0 then redis.pcall('HINCRBY', base .. 'stats', 'accepted:' .. no, accepted) end
end
  local done, fault = pcall(one_by_one)
  local why = not done and (type(fault) == 'table' and fault.err or fault)
  -- Where nothing was stored, the call as a whole is refused.
  if why and at == 3 then return redis.error_reply(why) end
  for i = at, why and last or 0, 4 do answers[(i + 5) / 4] = 'refused ' .. why end
end
if largest > LARGE_BYTES and largest > (tonumber(terms and terms[5] or '') or 0) then
  -- For those who read many: a power of two, so that few puts note it.
  redis.pcall('HSET', base .. 't:' .. no, 'large', string.format('%d', 2 ^ select(2, math.frexp(largest - 1))))
end
--# include wake
if events then
--# include record
end
return answers
