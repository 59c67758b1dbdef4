#!lua flags=allow-oom
-- reserve: takes ready messages under a lease, from the first topic that has any, then the next.
--
-- MOVES    READY -> LEASED; READY -> expired; a malformed envelope -> DEAD
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, n (1 to 500), most bytes of envelopes (0: no bound; the last one may exceed it), lease ms (1 to a
--          day; "" for the topic's), topic, …
-- RETURNS  now_us, wait ms ("" for no reason to come back before the next wake, 0 for at once: there may be more
--          behind the bytes or the entries that a call takes), dropped (stale entries), expired, buried, newer (set
--          aside for 10 s: of a later format, or a key on their way is of the wrong type), then for each topic that
--          exists, as long as n and the bytes are not reached:
--          its place among those asked for (from 1), lease end ms (0: a key of the topic is of the wrong type, and
--          nothing was taken), how many, and 3 a message: ready time in µs,
--          receipt, envelope as it was before (its attempt and delivery count without this one)
-- COST     O(1) and a read of the envelope a message; at most n + 100 entries are looked at
--# include now, arguments, shard, topic, alarm, gen, envelope, bucket, finish, kill, lease

arguments('reserve', 4, 1)
local wanted = number('n', ARGV[2], 1, MOST_IDS)
local most_bytes = number('the most bytes', ARGV[3], 0, 4294967295)
local lease_ms = ARGV[4] ~= '' and number('the lease in ms', ARGV[4], 1, LONGEST_LEASE_MS)
local wait, dropped, expired, buried, newer = nil, 0, 0, 0, 0
local looks, bytes = wanted + 100, 0
if most_bytes == 0 then most_bytes = math.huge end
local answer = { now_us, '', 0, 0, 0, 0 }

local function come_back(ms) if not wait or ms < wait then wait = ms end end

-- How many the topic lets go now: all, or what its pause and its rate (messages a second) leave. The rate is a
-- leaky bucket (GCRA) with a burst of 100 ms, at least one message; `tat` is when it is empty.
local function allowance(no, paused, rate, tat)
  if paused then return 0 end
  if not rate then return looks end
  local interval = 1000000 / rate
  local burst = math.max(interval, 100000)
  tat = math.max(tonumber(tat) or 0, now_us)
  local full = now_us + math.ceil(burst)
  if tat > full then
    -- More than the bucket holds: the clock read ahead, or the rate was lower.
    tat = full
    redis.call('HSET', base .. 't:' .. no, 'tat', string.format('%.0f', tat))
  end
  local allowed = math.floor((now_us + burst - tat) / interval + 0.000001)
  if allowed < 1 then come_back(math.ceil((tat + interval - burst - now_us) / 1000)) end
  return math.max(allowed, 0), interval, tat
end

local byte, sub = string.byte, string.sub

-- What an entry's envelope is: ready (to be leased), stale, expired, malformed, newer. Nothing in it may fail here.
local function look(entry, env)
  if not env then return 'stale' end
  if #env < 32 then return 'malformed' end
  local format, state, high, low = byte(env, 1, 4)
  local is_its_own = sub(env, 5, 8) == sub(entry, -11, -8)
  if format > FORMAT then return is_its_own and 'newer' or 'stale' end
  if format < FORMAT or not STATE[state] then return 'malformed' end
  if state ~= PENDING or not is_its_own then return 'stale' end
  local flags = high * 256 + low
  if flags > HASH and bit.band(flags, EXPIRES) > 0 then
    local at = bit.band(flags, HASH) > 0 and 41 or 33
    if #env < at + 7 then return 'malformed' end
    if struct.unpack('>I8', env, at) <= now then return 'expired' end
  end
  return 'ready', flags
end

-- A leased head's beginning by its flags; what counts how often it was tried, after the first time.
local starts = {}
local function start_of(flags)
  starts[flags] = struct.pack('>BBI2', FORMAT, LEASED, flags)
  return starts[flags]
end
local UNTRIED, TRIED = '\0\0\0\0\0\0', '\0\0\0\1\0\1'
local function tried_once_more(counts)
  if counts == UNTRIED then return TRIED end
  local delivery, attempt = struct.unpack('>I4I2', counts)
  return struct.pack('>I4I2', delivery + 1, attempt + 1)
end

-- Settles what will not be delivered. Returns whether it counted as ready until now.
local function drop(no, id, word)
  if word == 'stale' then
    dropped = dropped + 1
    return false
  end
  local m = word == 'expired' and read(no, id)
  if m and is_whole(m) then
    finish(m, 'expired')
    expired = expired + 1
  else
    kill_malformed(no, id)
    buried = buried + 1
  end
  return true
end

-- Takes an entry that cannot be handled now out of the queue, where it would keep it from ever being empty: into the
-- bucket of its message, to come back in ten seconds.
local function set_aside(no, entry, env)
  local due = #env < 16 and now or struct.unpack('>I8', env, 9)
  bucket_check(no, due)
  bucket_add(bucket_of(no, due), now + 10000, { now + 10000, sub(entry, 1, -8) })
end

-- Gives the messages of `heads` (key, head, …) out under their leases (end, receipt, …). The leases come first: a lease
-- whose message was not given out ends by itself, a message without one would be stuck.
local function lease_out(leases, heads, until_ms)
  note_lease(until_ms - now)
  alarm('leases', until_ms)
  redis.call('ZADD', base .. 'leases', unpack(leases))
  local call = redis.call
  for i = 1, #heads, 2 do call('SETRANGE', heads[i], '0', heads[i + 1]) end
end

-- Takes up to `n` from one topic: how many, how many entries were looked at, whether the queue is at its end.
-- Entries are read first, and leave the list when all of them are settled: an error between leaves stale ones
-- behind, never a lost one.
local function take(no, n, until_ms)
  local queue, prefix = base .. 'r:' .. no, base .. 'm:' .. no .. ':'
  local entries = redis.call('LRANGE', queue, 0, n - 1)
  if #entries == 0 then return 0, 0, true end
  must_be('zset', 'leases')
  must_be('hash', 'stats')
  gens(#entries)
  local keys = {}
  for i = 1, #entries do keys[i] = prefix .. sub(entries[i], 1, -12) end
  local envs = redis.call('MGET', unpack(keys))
  local leases, heads, back, met, seen, gone, taken = {}, {}, {}, {}, 0, 0, 0
  local until_text, until_bytes = string.format('%.0f', until_ms), struct.pack('>I8', until_ms)
  local receipt_start, stamp, ready_us = no .. ':', nil, nil
  for i = 1, #entries do
    if bytes >= most_bytes then break end
    seen = i
    local entry, env, key = entries[i], envs[i], keys[i]
    local word, flags = look(entry, env)
    -- A pump that was cut off may have left an entry twice.
    if met[key] then word = 'stale' elseif word ~= 'stale' then met[key] = true end
    if word == 'ready' then
      local g = gen_bytes(gen(flags > HASH and bit.band(flags, INDEXED) > 0))
      local receipt = receipt_start .. sub(entry, 1, -12) .. g
      -- All of the head but the most attempts, its last two bytes.
      heads[2 * taken + 1], heads[2 * taken + 2] = key, (starts[flags] or start_of(flags)) .. g
        .. sub(env, 9, 16) .. until_bytes .. tried_once_more(sub(env, 25, 30))
      leases[2 * taken + 1], leases[2 * taken + 2] = until_text, receipt
      local ready = sub(entry, -7)
      if ready ~= stamp then stamp, ready_us = ready, struct.unpack('>I7', ready) end
      local a = #answer
      answer[a + 1], answer[a + 2], answer[a + 3] = ready_us, receipt, env
      taken, bytes = taken + 1, bytes + #env
    else
      local ok, counted = false, true
      if word ~= 'newer' then ok, counted = pcall(drop, no, sub(entry, 1, -12), word) end
      if not ok then
        newer, counted = newer + 1, pcall(set_aside, no, entry, env)
        if not counted then back[#back + 1] = entry end
      end
      if counted then gone = gone + 1 end
    end
  end
  if taken > 0 then lease_out(leases, heads, until_ms) end
  if #back > 0 then redis.call('RPUSH', queue, unpack(back)) end
  redis.call('LTRIM', queue, seen, '-1')
  count('ready', no, -taken - gone)
  count('leased', no, taken)
  return taken, seen, #entries < n or #back > 0
end

-- What a topic's policy says of taking from it.
local function terms(no)
  must_be('list', 'r:' .. no)
  local values = redis.pcall('HMGET', base .. 't:' .. no, 'paused', 'rate', 'tat', 'lease_ms')
  if values.err then must_be('hash', 't:' .. no) end
  return values
end

-- What keeps a topic from being taken from. Other topics go on; where there is no other one, the call fails with it.
local broken, served

local function reserve_from(place, topic)
  local no = topic_no(topic)
  if not no then return end
  local at = #answer
  local ok, policy_or_fault = pcall(terms, no)
  if not ok then
    broken = policy_or_fault
    answer[at + 1], answer[at + 2], answer[at + 3] = place, 0, 0
    return
  end
  served = true
  local paused, rate, empty_at, topic_lease_ms = unpack(policy_or_fault)
  local allowed, interval, tat = allowance(no, paused, tonumber(rate), empty_at)
  local until_ms = now + (lease_ms or topic_lease(topic_lease_ms))
  answer[at + 1], answer[at + 2], answer[at + 3] = place, until_ms, 0
  local taken, over = 0, false
  while not over and wanted > 0 and looks > 0 and allowed > taken do
    local got, seen, last = take(no, math.min(wanted, looks, allowed - taken), until_ms)
    taken, wanted, looks = taken + got, wanted - got, looks - seen
    over = last or bytes >= most_bytes
  end
  answer[at + 3] = taken
  if looks <= 0 and not over then come_back(0) end
  if interval and taken > 0 then
    redis.call('HSET', base .. 't:' .. no, 'tat', string.format('%.0f', tat + taken * interval))
    if taken >= allowed and wanted > 0 then come_back(math.ceil(interval / 1000)) end
  end
end

for i = 5, #ARGV do
  if wanted > 0 and bytes < most_bytes then reserve_from(i - 4, ARGV[i]) end
end
if wanted > 0 and bytes >= most_bytes then come_back(0) end
wake_timer()
if broken and not served then return redis.error_reply(broken.err or broken) end
answer[2], answer[3], answer[4], answer[5], answer[6] = wait or '', dropped, expired, buried, newer
return answer
