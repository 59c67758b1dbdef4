#!lua
-- put: takes new messages of one topic in.
--
-- MOVES    nothing -> DELAYED, or -> READY where already due and the shard is not held
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, then 4 a message (1 to 500): id, due, options, envelope
--            id        16 raw bytes of a UUIDv7, or text of 1 to 128 bytes
--            due       ms since the epoch, or "+" and a delay in ms, on this Redis's clock
--            options   words parted by a space: replace, tried=<ms since the epoch, on this Redis's clock: when the
--                      first try began, whose answer was lost>, earlier (the id belongs elsewhere since the
--                      deployment grew: `moved` where it is not here)
--            envelope  see docs/protocol.md; state, gen, due, at, delivery, attempt are filled in here
-- RETURNS  now_us, then one answer a message: stored | ready | exists <state> <ms> | conflict <state> <ms> |
--          leased | stale | moved (not here: put it where it belongs now) | refused <why>; <ms> is the due time of
--          what is pending, the end of what is over
-- COST     O(log n) a message, n = the topic's messages of that hour
--# include now, arguments, due, shard, topic, alarm, gen, envelope, backoff, bucket, stale, ready, finish

arguments('put', 2, 4)
local topic = ARGV[2]
must_be('hash', 'stats')
local no, is_new = topic_number(topic)
gens((#ARGV - 2) / 4)
local max_default, expire_after = policies(no, 'max_attempts', 'expire_after_ms')
local key_of = base .. 'm:' .. no .. ':'

-- What the messages taken so far add: ready entries, buckets, bodies by key.
local entries, buckets, firsts, bodies = {}, {}, {}, {}
local accepted, stamp = 0, nil
local call, byte, sub, pack = redis.call, string.byte, string.sub, struct.pack

-- `score` is `due` as text: a number would be formatted anew for the command, which costs more than all else here.
local function gather(bucket, due, score, member)
  local members = buckets[bucket]
  if not members then
    members = {}
    buckets[bucket], firsts[bucket] = members, due
  end
  local n = #members
  members[n + 1], members[n + 2] = score, member
  if due < firsts[bucket] then firsts[bucket] = due end
end

-- Whether none of the call's ids was stored when it began, nor since: most often one look is enough for all.
local free
do
  local keys = {}
  for i = 3, #ARGV, 4 do keys[#keys + 1] = key_of .. ARGV[i] end
  free = call('EXISTS', unpack(keys)) == 0
end

-- Brings what was gathered so far to its buckets and to the ready queue, and stores it. The bodies come last, each with one
-- command: a put that is cut off leaves stale entries, and never a message that a repeat finds and nothing leads to.
local function flush()
  for bucket, members in pairs(buckets) do
    if #members > 0 then bucket_add(bucket, firsts[bucket], members) end
  end
  push_ready(no, entries)
  for key, body in pairs(bodies) do call('SET', key, body) end
  buckets, entries, bodies, free = {}, {}, {}, false
end


-- Whether nothing is stored under a key, as far as this call has come.
local function is_free(key) return not bodies[key] and (free or call('EXISTS', key) == 0) end

-- The options that were read last: the messages of a call often share them.
local options_text, replace, earlier, tried = '', false, false, nil
local function read_options(text)
  options_text, replace, earlier, tried = nil, false, false, nil
  for word in string.gmatch(text, '%S+') do
    if word == 'replace' then
      replace = true
    elseif word == 'earlier' then
      earlier = true
    else
      tried = tonumber(string.match(word, '^tried=(%d+)$'))
      if not tried then error({ err = 'option ' .. word }) end
    end
  end
  options_text = text
end

-- What keeps a message whose id is taken out: an answer, or nil and what it replaces.
local function taken(id, flags, env)
  flush()
  local m, why = read(no, id)
  if not m then return 'conflict ' .. why .. ' 0' end
  if replace and m.state > DEAD then must_be('zset', 'markers') end
  if replace and m.state == LEASED then return 'leased' end
  local same = bit.band(flags, HASH) == 0 or string.sub(m.env, 33, 40) == string.sub(env, 33, 40)
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
    redis.call('ZREM', base .. 'markers', name)
    return
  end
  if old.state == PENDING then unplace(old) end
  if old.state == DEAD then redis.call('ZREM', base .. 'd:' .. no, old.id .. gen_bytes(old.gen)) end
  local _, had_expiry, _, had_group = fields(old.env, old.flags)
  if had_expiry and not expires then redis.call('ZREM', base .. 'expiries', name) end
  if had_group and had_group ~= group then redis.call('ZREM', base .. 'g:' .. had_group, name) end
  count('replaced', no, 1)
end

-- Whether the topic refuses a repeat that finds nothing, because it may have forgotten how the first try ended.
local function is_stale(id)
  if call('HGET', base .. 't:' .. no, 'repeats') ~= 'refuse' then return false end
  local remember = generated(id) and 'remember_generated_ms' or 'remember_own_ms'
  return tried + math.min(policies(no, 'remember_cancelled_ms', remember)) <= now
end

-- Adds a message to its indexes: the group's, the expiries.
local function join_indexes(id, due, expires, group)
  if group then redis.call('ZADD', base .. 'g:' .. group, due, no .. ':' .. id) end
  if expires then
    alarm('expiries', expires)
    redis.call('ZADD', base .. 'expiries', expires, no .. ':' .. id)
  end
end

-- Refuses an envelope whose optional fields cannot be read back.
local function check_fields(env, flags)
  local _, _, backoff, _, rest = fields(env, flags)
  if rest > #env + 1 then error('fields are cut short') end
  if backoff and not is_backoff(backoff) then error('back-off') end
end

-- The last due time that was read: the messages of a call often share it.
local due_text, due, due_score
local function read_due(text)
  due_text, due = text, due_of(text)
  if not due then return end
  due_score = byte(text) == 43 and string.format('%.0f', due) or text
end

-- A head's parts around its gen and its due time, by flags and by the most attempts.
local starts, ends = {}, {}
local function start_of(flags)
  starts[flags] = pack('>BBI2', FORMAT, PENDING, flags)
  return starts[flags]
end
local function end_of(max)
  ends[max] = pack('>I8I4I2I2', now, 0, 0, max)
  return ends[max]
end

local checked_bucket
local function put(id, text, options, env)
  if options ~= options_text then read_options(options) end
  -- What is missing here stays so: whoever still believes that the id belongs here is refused by the layout.
  local key = key_of .. id
  if earlier and is_free(key) then return 'moved' end
  if text ~= due_text then read_due(text) end
  if not due then return 'refused due time' end
  local format, _, high, low = byte(env, 1, 4)
  if #env < 32 or format ~= FORMAT then return 'refused format' end
  local flags = high * 256 + low
  if flags >= DOOMED then return 'refused flags' end
  if flags > HASH or flags == HASH and #env < 40 then check_fields(env, flags) end
  high, low = byte(env, 31, 32)
  local max = high * 256 + low
  if max == 0 then max = max_default end

  local expires, group
  -- What would expire past all times that can be told never does.
  if expire_after > 0 and bit.band(flags, EXPIRES) == 0 and due + expire_after < 9007199254740992 then
    local before = bit.band(flags, HASH) > 0 and 40 or 32
    env = string.sub(env, 1, before) .. struct.pack('>I8', due + expire_after) .. string.sub(env, before + 1)
    flags = flags + EXPIRES + RELATIVE
  end
  local indexed = flags > HASH and bit.band(flags, INDEXED) > 0
  if indexed then
    _, expires, _, group = fields(env, flags)
    if expires then
      if expires <= due then return 'refused expiry not after the due time' end
      if expires >= 9007199254740992 then return 'refused expiry' end
      must_be('zset', 'expiries')
    end
    if group then must_be('zset', 'g:' .. group) end
  end

  local middle = pack('>I4I8', gen(indexed), due)
  local g = sub(middle, 1, 4)
  local direct, bucket = due <= now and not held, nil
  if not direct then
    bucket = bucket_of(no, due)
    if bucket ~= checked_bucket then bucket_check(no, due) end
    checked_bucket = bucket
  elseif not stamp then
    must_be('list', 'r:' .. no)
    stamp = ready_stamp()
  end

  local head = (starts[flags] or start_of(flags)) .. middle .. (ends[max] or end_of(max))
  local answer, old
  if not is_free(key) then
    answer, old = taken(id, flags, env)
    if answer then return answer end
  elseif tried and is_stale(id) then
    return 'stale'
  end
  if is_new then
    topic_open(topic, no)
    is_new = false
  end
  if indexed then join_indexes(id, due, expires, group) end
  if direct then
    entries[#entries + 1] = id .. g .. stamp
  else
    gather(bucket, due, due_score, id .. g)
  end
  bodies[key] = head .. sub(env, 33)
  accepted = accepted + 1
  if old then
    flush()
    displace(old, expires, group)
  end
  return direct and 'ready' or 'stored'
end

local function refused(fault) return 'refused ' .. (type(fault) == 'table' and fault.err or fault) end

local answers, at, last = { now_us }, 3, #ARGV
local function put_all()
  while at <= last do
    local word = put(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
    answers[#answers + 1], at = word, at + 4
  end
end
-- A fault refuses the one message, and the others go on behind it.
while at <= last do
  local ok, fault = pcall(put_all)
  if not ok then answers[#answers + 1], at = refused(fault), at + 4 end
end
flush()
trim_ready()
count('accepted', no, accepted)
wake_timer()
return answers
