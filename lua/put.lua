#!lua
-- put: stores new messages of one topic.
--
-- MOVES    nothing -> DELAYED, or -> READY if already due and the shard is not held
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, then 4 a message (1 to 500): id, due, options, envelope
--            id        16 raw bytes of a UUIDv7; or text of 1 to 128 bytes, for a message in a group followed by
--                      0x1F and the group
--            due       ms since the epoch, or "+" and a delay in ms, on this Redis's clock
--            options   words separated by spaces: replace, tried=<ms since the epoch, on this Redis's clock: start of the
--                      first try, whose answer was lost>, earlier (the id belongs elsewhere since the deployment
--                      grew: `moved` if not here), record=<16 hex digits> (a recorded write, which may be repeated:
--                      a repeat of a carried-out write gets the first answer)
--            envelope  see docs/protocol.md; state, gen, due, at, delivery, attempt are filled in here
-- RETURNS  now_us, then one answer a message: stored | ready | exists <state> <ms> | conflict <state> <ms> |
--          leased | stale | moved (not here: put into the current shard) | refused <why>; <ms> is the due time of a
--          pending message, the end of a finished message
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

-- The fast path handles the leading plain messages of the call together, without a function: creating a function costs
-- as much as a command. A message is plain if its topic is known and adds no expiry, its id is free, it has no options
-- except a record that was not carried out, and no script-visible fields except a hash and a group.
local terms = no and redis.pcall('HMGET', base .. 't:' .. no, 'max_attempts', 'expire_after_ms', 'history', 'durability', 'large') or nil
if terms and terms[4] then
--# include durability
  must_wait(no, topic)
end
local any_history, events = terms and terms[3] and terms[3] ~= '0', nil
local plain = terms and not terms.err and (not terms[2] or tonumber(terms[2]) == 0)
-- The additions: keys and bodies, buckets with scores and members, ready entries, groups' keys with score and name.
local keys, bodies, buckets, entries, joined, met
local max_default, free, last_gen, usual_max, unleased
-- The largest envelope of the call.
local largest = 0
-- The records of a call, usually of all its messages or of none, and the entries that `once.lua` keeps for carried-out
-- records.
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
  -- The part of every head after the due time: now, and no lease.
  usual_max, unleased = struct.pack('>I2', max_default), struct.pack('>I8', now) .. '\0\0\0\0\0\0'
  local key_of = base .. 'm:' .. no .. ':'
  keys = { key_of .. ARGV[3] }
  for i = 7, last, 4 do keys[#keys + 1] = key_of .. ARGV[i] end
  -- Usually one check covers all.
  free = call('EXISTS', unpack(keys)) == 0
  -- The last gen. The counter advances by two, since the lowest bit has a meaning of its own.
  last_gen = call('HINCRBY', KEYS[1], 'gen', last == 6 and '2' or 2 * #keys) - 2 * #keys
  bodies, buckets = { nil, nil }, {}
end
-- The last due time, as text for a score and in bytes, and its bucket: messages of a call often share these.
local due_text, due, score, due_bytes, hour_start, bucket
while plain and at <= last do
  local id, text, env, key = ARGV[at], ARGV[at + 1], ARGV[at + 3], keys[accepted + 1]
  if text ~= due_text then
    due_text, due, score = text, nil, text
    if find(text, '^%d+$') then
      due = tonumber(text)
    elseif find(text, '^%+%d+$') then
      due = now + sub(text, 2)
      -- Redis would format a number again for each command.
      score = string.format('%d', due)
    end
    if not due or due == 0 or due > LAST_MS then break end
    due_bytes = struct.pack('>I8', due)
    if due <= now and not held then
      -- A message already due has no bucket.
      bucket, hour_start = nil, nil
    elseif due - due % 3600000 ~= hour_start then
      -- The name as in `hour.lua`.
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
  -- Stops at the first failure, usually a key of the wrong type.
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
  -- The bodies come last, in one command: an interrupted put leaves stale entries, never a message that a repeat finds
  -- and no entry leads to.
  if not failed then
    call('MSET', unpack(bodies))
    if carried then call('HSET', base .. 'carried', unpack(carried)) end
    -- Repeated now and then, since a restarted Redis has lists again.
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
    -- Undoes all of them: the general path below tells each message its own fault.
    for name, members in pairs(buckets) do
      for i = 2, #members, 2 do redis.pcall('ZREM', base .. name, members[i]) end
    end
    for i = 1, joined and #joined or 0, 3 do redis.pcall('ZREM', joined[i], joined[i + 2]) end
    if type(counted) == 'number' then call('HINCRBY', base .. 'stats', 'accepted:' .. no, -accepted) end
    if type(queued) == 'number' then call('HINCRBY', base .. 'stats', 'ready:' .. no, -#entries) end
    at, answers = 3, { now_us }
  end
end

-- The general path handles the remaining messages one by one, from the first that is not plain.
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

-- The last options: messages of a call often share these.
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

-- Judges a message whose id is taken: an answer, or nil and the message to replace.
local function taken(id, flags, env)
  local m, why = read(no, id)
  if not m then return 'conflict ' .. why .. ' 0' end
  if replace and m.state > DEAD then must_be('zset', 'markers') end
  if replace and m.state == LEASED then return 'leased' end
  local same = bit.band(flags, HASH) == 0 or sub(m.env, 33, 40) == sub(env, 33, 40)
  -- A message that finished after the first try was put by that try: a replacement would deliver it again.
  local was_put = tried and same and m.state >= DEAD and m.at > tried
  if not replace or was_put then
    local time = m.state <= LEASED and m.due or m.at
    return string.format('%s %s %.0f', same and 'exists' or 'conflict', state_of(m), time)
  end
  index_check(m)
  if m.state == DEAD then
    must_be('zset', 'd:' .. no)
    must_be('hash', 'w:' .. no)
  end
  if m.state == PENDING then bucket_check(no, m.due) end
  return nil, m
end

-- Removes a replaced message from its place, except from the indexes that hold the new message.
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

-- True if the topic refuses a repeat without a trace, because it may have forgotten the first try.
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

-- Refuses an envelope with unreadable optional fields.
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
  -- A missing message stays missing: the layout refuses a caller who still places the id here.
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
  -- An expiry past the last time never comes.
  if expire_after > 0 and bit.band(flags, EXPIRES) == 0 and due + expire_after <= LAST_MS then
    local before = bit.band(flags, HASH) > 0 and 40 or 32
    env = sub(env, 1, before) .. struct.pack('>I8', due + expire_after) .. sub(env, before + 1)
    flags = flags + EXPIRES + RELATIVE
  end
  if bit.band(flags, INDEXED) > 0 then
    _, expires, _, group = fields(env, flags)
    if expires then
      -- A recorded delay that has passed is due at once; an expiry that has passed meanwhile ends the message.
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
  if old and old.state == DEAD then call('HDEL', base .. 'w:' .. no, id) end
  call('SET', key, head .. sub(env, 33))
  accepted, largest = accepted + 1, math.max(largest, #env)
  -- The message is stored: leftovers of its predecessor are stale.
  if old then pcall(displace, old, expires, group) end
  note(no, id, 'put %.0f %s', due, direct and 'ready' or 'stored')
  return direct and 'ready' or 'stored'
end

while at <= last do
  local ok, word = pcall(function()
    if ARGV[at + 2] ~= options_text then read_options(ARGV[at + 2]) end
    return once(record, function() return put(ARGV[at], ARGV[at + 1], ARGV[at + 3]) end)
  end)
  -- A fault refuses only its own message.
  if not ok then word = 'refused ' .. (type(word) == 'table' and word.err or word) end
  answers[#answers + 1], at = word, at + 4
end
trim_ready()
-- These messages are stored, whatever happened to the counter. A sweep corrects the counter.
if accepted > 0 then redis.pcall('HINCRBY', base .. 'stats', 'accepted:' .. no, accepted) end
end
  local done, fault = pcall(one_by_one)
  local why = not done and (type(fault) == 'table' and fault.err or fault)
  -- If nothing was stored, the whole call is refused.
  if why and at == 3 then return redis.error_reply(why) end
  for i = at, why and last or 0, 4 do answers[(i + 5) / 4] = 'refused ' .. why end
end
if largest > LARGE_BYTES and largest > (tonumber(terms and terms[5] or '') or 0) then
  -- For scripts that read many messages: a power of two, so that few puts record it.
  redis.pcall('HSET', base .. 't:' .. no, 'large', string.format('%d', 2 ^ select(2, math.frexp(largest - 1))))
end
--# include wake
if events then
--# include record
end
return answers
