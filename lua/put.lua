#!lua
-- put: takes new messages of one topic in.
--
-- MOVES    nothing -> DELAYED, or -> READY where already due and the shard is not held
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, then 4 a message (1 to 500): id, due, options, envelope
--            id        16 raw bytes of a UUIDv7, or text of 1 to 128 bytes
--            due       ms since the epoch, or "+" and a delay in ms, on this Redis's clock
--            options   words parted by a space: replace, tried=<ms since the epoch of the first try>, earlier (the
--                      id belongs elsewhere since the deployment grew: `moved` where it is not here)
--            envelope  see docs/protocol.md; state, gen, due, at, delivery, attempt are filled in here
-- RETURNS  now_us, then one answer a message: stored | ready | exists <state> <ms> | conflict <state> <ms> |
--          leased | stale | moved (not here: put it where it belongs now) | refused <why>; <ms> is the due time of
--          what is pending, the end of what is over
-- COST     O(log n) a message, n = the topic's messages of that hour
--# include now, due, shard, topic, alarm, gen, envelope, bucket, ready, finish

local topic = ARGV[2]
local no = topic_open(topic)
must_be('hash', 'stats')
gens((#ARGV - 2) / 4)
local max_default, expire_after = policies(no, 'max_attempts', 'expire_after_ms')
local key_of = base .. 'm:' .. no .. ':'

local entries, buckets, firsts = {}, {}, {}
local accepted, stamp = 0, nil

local function gather(bucket, due, member)
  local members = buckets[bucket]
  if not members then
    members = {}
    buckets[bucket], firsts[bucket] = members, due
  end
  local n = #members
  members[n + 1], members[n + 2] = due, member
  if due < firsts[bucket] then firsts[bucket] = due end
end

-- Brings what was gathered so far to its buckets and to the ready queue.
local function flush()
  for bucket, members in pairs(buckets) do
    if #members > 0 then bucket_add(bucket, firsts[bucket], members) end
  end
  make_ready(no, entries)
  buckets, entries = {}, {}
end

local function option(options, name) return tonumber(string.match(options, name .. '=(%d+)')) end

-- What keeps a message whose id is taken out: an answer, or nil where it may replace what is there.
local function taken(id, flags, options, env)
  flush()
  local m, why = read(no, id)
  if not m then return 'conflict ' .. why .. ' 0' end
  local replace = string.find(options, 'replace', 1, true)
  if replace and m.state > DEAD then must_be('zset', 'markers') end
  if replace and m.state == LEASED then return 'leased' end
  if not replace then
    local same = bit.band(flags, HASH) == 0 or string.sub(m.env, 33, 40) == string.sub(env, 33, 40)
    local time = m.state <= LEASED and m.due or m.at
    return string.format('%s %s %.0f', same and 'exists' or 'conflict', state_of(m), time)
  end
  index_check(m)
  if m.state == DEAD then must_be('zset', 'd:' .. no) end
  if m.state == PENDING then unplace(m) end
  if m.state == DEAD then redis.call('ZREM', base .. 'd:' .. no, id .. gen_bytes(m.gen)) end
  if m.state <= DEAD then
    leave_indexes(m)
    count('replaced', no, 1)
  else
    redis.call('ZREM', base .. 'markers', no .. ':' .. id)
  end
  redis.call('UNLINK', key_of .. id)
end

-- Whether a put that was first tried at `tried` may be the repeat of one whose end is forgotten already.
local function is_stale(id, tried)
  local remembered = policy(no, 'remember_cancelled_ms')
  if not generated(id) then remembered = math.min(remembered, policy(no, 'remember_own_ms')) end
  return tried + remembered < now
end

-- Adds a message to its indexes: the group's, the expiries.
local function join_indexes(id, due, expires, group)
  if group then redis.call('ZADD', base .. 'g:' .. group, due, no .. ':' .. id) end
  if expires then
    redis.call('ZADD', base .. 'expiries', expires, no .. ':' .. id)
    alarm('expiries', expires)
  end
end

-- Refuses an envelope whose optional fields cannot be read back.
local function check_fields(env, flags)
  local _, _, backoff, _, rest = fields(env, flags)
  if rest > #env + 1 then error('fields are cut short') end
  if backoff and not ((#backoff - 1) % 4 == 0 and #backoff > 1 and string.byte(backoff) <= 3) then error('back-off') end
end

local function put(id, due_text, options, env)
  -- What is missing here stays so: whoever still believes that the id belongs here is refused by the layout.
  if options ~= '' and string.find(options, 'earlier', 1, true) and redis.call('EXISTS', key_of .. id) == 0 then
    return 'moved'
  end
  local due = due_of(due_text)
  if not due then return 'refused due time' end
  if #env < 32 or string.byte(env) ~= FORMAT then return 'refused format' end
  local _, _, high, low = string.byte(env, 1, 4)
  local flags, rest = high * 256 + low, string.sub(env, 33)
  if flags >= DOOMED then return 'refused flags' end
  if flags > 0 then check_fields(env, flags) end
  local max = struct.unpack('>I2', env, 31)
  if max == 0 then max = max_default end

  local expires, group
  -- What would expire past all times that can be told never does.
  if expire_after > 0 and bit.band(flags, EXPIRES) == 0 and due + expire_after < 9007199254740992 then
    local hash = bit.band(flags, HASH) > 0 and 8 or 0
    rest = string.sub(rest, 1, hash) .. struct.pack('>I8', due + expire_after) .. string.sub(rest, hash + 1)
    env, flags = string.sub(env, 1, 32) .. rest, flags + EXPIRES
  end
  if bit.band(flags, INDEXED) > 0 then
    _, expires, _, group = fields(env, flags)
    if expires then
      if expires <= due then return 'refused expiry not after the due time' end
      if expires >= 9007199254740992 then return 'refused expiry' end
      must_be('zset', 'expiries')
    end
    if group then must_be('zset', 'g:' .. group) end
  end

  local g = gen(bit.band(flags, INDEXED) > 0)
  local member = id .. gen_bytes(g)
  local direct = due <= now and not held
  if direct then must_be('list', 'r:' .. no) else bucket_check(no, due) end

  local key = key_of .. id
  local body = struct.pack(HEAD, FORMAT, PENDING, flags, g, due, now, 0, 0, max) .. rest
  local tried = options ~= '' and option(options, 'tried')
  if tried and redis.call('EXISTS', key) == 0 and is_stale(id, tried) then return 'stale' end
  if not redis.call('SET', key, body, 'NX') then
    local answer = taken(id, flags, options, env)
    if answer then return answer end
    redis.call('SET', key, body)
  end
  accepted = accepted + 1
  if expires or group then join_indexes(id, due, expires, group) end
  if direct then
    stamp = stamp or ready_stamp()
    entries[#entries + 1] = member .. stamp
    return 'ready'
  end
  gather(bucket_of(no, due), due, member)
  return 'stored'
end

local function refused(fault) return 'refused ' .. (type(fault) == 'table' and fault.err or fault) end

local answers = { now_us }
for i = 3, #ARGV, 4 do
  local ok, word = pcall(put, ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
  answers[#answers + 1] = ok and word or refused(word)
end
flush()
count('accepted', no, accepted)
wake_timer()
return answers
