#!lua flags=allow-oom
-- reserve: leases ready messages, from the topics in the given order.
--
-- MOVES    READY -> LEASED; READY -> expired; a malformed envelope -> DEAD
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, n (1 to 500), maximum bytes of envelopes (0: unlimited; the last envelope may exceed the limit), lease
--          ms (1 to a day; "" for the topic's), topic, … (a last argument that begins with "by=" is the caller's name for
--          histories, in up to 100 bytes)
-- RETURNS  now_us, wait ms ("": until the next wake, 0: at once, because there may be more beyond the limits on bytes
--          or entries of a call), dropped (stale entries), expired, buried, newer (set
--          aside for 10 s: a later format, or a key of the wrong type), then for each existing topic, until n or the
--          bytes are reached: place among the requested topics (from 1), lease end ms (0: a key of the topic has the
--          wrong type, and nothing was taken), number of messages, and 3 a message: ready time in µs, receipt,
--          previous envelope (attempt and delivery without this lease)
-- COST     O(1) and a read of the envelope a message, within the limit on bytes; at most n + 100 entries are visited
local registry = redis.pcall('HMGET', KEYS[1], 'layout', 'topic:' .. tostring(ARGV[5]), 'history')
local layout, any_history, events = registry[1], registry[3], nil
--# include now, shard, limits, format, nearest

local call, byte, sub, find = redis.call, string.byte, string.sub, string.find
local wanted, max_bytes, lease_ms = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
-- No topic contains "=".
local last_arg, who = #ARGV, ''
if byte(ARGV[last_arg] or '', 3) == 61 then who, last_arg = sub(ARGV[last_arg], 4, 103), last_arg - 1 end
if last_arg < 5 or last_arg > 4 + MOST_IDS or not (find(ARGV[2], '^%d+$') and find(ARGV[3], '^%d+$') and find(ARGV[4], '^%d*$'))
  or wanted < 1 or wanted > MOST_IDS or max_bytes > 4294967295
  or lease_ms and (lease_ms < 1 or lease_ms > LONGEST_LEASE_MS) then
--# include arguments
  arguments('reserve', 4, 1)
  if last_arg < 5 then refuse('reserve takes a topic') end
  number('n', ARGV[2], 1, MOST_IDS)
  number('the most bytes', ARGV[3], 0, 4294967295)
  number('the lease in ms', ARGV[4], 1, LONGEST_LEASE_MS)
end
if max_bytes == 0 then max_bytes = math.huge end
-- Has room for one message, since each growth of a table costs.
local looks, bytes, answer = wanted + 100, 0, { now_us, '', 0, 0, 0, 0, nil, nil, nil, nil, nil, nil }

-- A leased message's head, except the last two bytes (maximum attempts).
local function leased_head(env, gen, until_bytes)
  local counts = sub(env, 25, 30)
  if counts == '\0\0\0\0\0\0' then
    counts = '\0\0\0\1\0\1'
  else
    local delivery, attempts = struct.unpack('>I4I2', counts)
    counts = struct.pack('>I4I2', delivery + 1, attempts + 1)
  end
  return '\1\3' .. sub(env, 3, 4) .. gen .. sub(env, 9, 16) .. until_bytes .. counts
end

-- The fast path handles plain messages as far as possible: topics without a pause and a rate, and entries of ready
-- messages in a known format that have not expired. `place` is the end of that part, `begun` the place of its topic in
-- the answer.
local place, begun = 5, nil
while place <= last_arg and wanted > 0 and bytes < max_bytes do
  local no = registry[2]
  if place > 5 then no = call('HGET', KEYS[1], 'topic:' .. ARGV[place]) end
  if no then
    local queue, prefix = base .. 'r:' .. no, base .. 'm:' .. no .. ':'
    local terms = redis.pcall('HMGET', base .. 't:' .. no, 'paused', 'rate', 'lease_ms', 'history', 'large')
    local entries = redis.pcall('LRANGE', queue, '0', wanted - 1)
    if terms.err or terms[1] or terms[2] or entries.err then break end
    local lease = lease_ms or terms[3] and math.max(math.min(tonumber(terms[3]) or LEASE_MS, LONGEST_LEASE_MS), 1) or LEASE_MS
    local until_ms, at, many = now + lease, #answer, #entries
    answer[at + 1], answer[at + 2], answer[at + 3] = place - 4, until_ms, 0
    if many > 0 then
      local keys, leases, heads, met, taken = { prefix .. sub(entries[1], 1, -12) }, { nil, nil }, { nil }, nil, 0
      for i = 2, many do keys[i] = prefix .. sub(entries[i], 1, -12) end
      -- Reads all messages in one command, unless the topic has large messages: then as many as the bytes have room
      -- for.
      local large, envs, before, behind, bytes_before = tonumber(terms[5]), nil, 0, 0, bytes
      local last_gen = call('HINCRBY', KEYS[1], 'gen', many == 1 and '2' or 2 * many)
      local gen = last_gen - 2 * many
      local until_text, until_bytes = string.format('%d', until_ms), struct.pack('>I8', until_ms)
      local stamp, ready_us
      for i = 1, many do
        if bytes >= max_bytes then break end
        if i > behind then
          before, behind = behind, large and math.min(behind + math.max(math.floor((max_bytes - bytes) / large), 1), many) or many
          envs = call('MGET', unpack(keys, i, behind))
        end
        local entry, env, key = entries[i], envs[i - before], keys[i]
        local format, state, high, low = byte(env or '', 1, 4)
        -- An interrupted pump may have left an entry twice.
        if format ~= FORMAT or state ~= PENDING or #env < 32 or met and met[key]
          or sub(env, 5, 8) ~= sub(entry, -11, -8) then break end
        local flags = high * 256 + low
        if flags > HASH and bit.band(flags, EXPIRES) > 0 then
          local from = flags % 2 == 1 and 41 or 33
          if #env < from + 7 or struct.unpack('>I8', env, from) <= now then break end
        end
        gen = gen + 2
        if many > 1 then
          met = met or {}
          met[key] = true
        end
        local g = struct.pack('>I4', (gen + (flags > HASH and bit.band(flags, INDEXED) > 0 and 1 or 0)) % 4294967296)
        local receipt = no .. ':' .. sub(entry, 1, -12) .. g
        heads[i] = leased_head(env, g, until_bytes)
        leases[2 * i - 1], leases[2 * i] = until_text, receipt
        local ready = sub(entry, -7)
        if ready ~= stamp then stamp, ready_us = ready, struct.unpack('>I7', ready) end
        local a = at + 3 * i
        answer[a + 1], answer[a + 2], answer[a + 3] = ready_us, receipt, env
        taken, bytes = i, bytes + #env
      end
      if taken > 0 then
        -- Stops at the first failure, usually a key of the wrong type.
        local stats = base .. 'stats'
        local fewer = redis.pcall('HINCRBY', stats, 'ready:' .. no, taken == 1 and '-1' or -taken)
        local more = redis.pcall('HINCRBY', stats, 'leased:' .. no, taken == 1 and '1' or taken)
        local failed = type(fewer) == 'table' or type(more) == 'table'
        if not failed then
          -- As in `note_lease`.
          if lease > LEASE_MS and lease > (tonumber(call('HGET', KEYS[1], 'longest_lease')) or LEASE_MS) then
            call('HSET', KEYS[1], 'longest_lease', lease)
          end
          local nearer = redis.pcall('ZADD', base .. 'alarms', 'LT', 'CH', until_text, 'leases')
          if nearer == 1 then nearest = until_ms end
          -- With more than a few messages, sometimes does the work of `tables.lua`: a drained topic has no other
          -- occasion.
          local long = more > 8 and last_gen % 126 < 2 * many and string.rep('-', 65)
          if long then redis.pcall('ZADD', base .. 'leases', until_text, long) end
          failed = type(nearer) == 'table' or type(redis.pcall('ZADD', base .. 'leases', unpack(leases))) == 'table'
          if long then redis.pcall('ZREM', base .. 'leases', long) end
        end
        if failed then
          for i = 2, 2 * taken, 2 do redis.pcall('ZREM', base .. 'leases', leases[i]) end
          if type(fewer) == 'number' then call('HINCRBY', stats, 'ready:' .. no, taken) end
          if type(more) == 'number' then call('HINCRBY', stats, 'leased:' .. no, -taken) end
          for i = at + 1, #answer do answer[i] = nil end
          bytes = bytes_before
          break
        end
        -- Leases come first: a lease whose message was not handed out ends by itself, a message without a lease would
        -- be stuck. Entries come last: an interruption leaves stale entries, never a lost one.
        for i = 1, taken do call('SETRANGE', keys[i], '0', heads[i]) end
        call('LTRIM', queue, taken, '-1')
        if terms[4] and terms[4] ~= '0' then
          events = events or {}
          for i = 1, taken do
            local e, _, attempt = #events, struct.unpack('>I4I2', heads[i], 25)
            events[e + 1], events[e + 2] = no, sub(entries[i], 1, -12)
            events[e + 3] = string.format('leased %d %s %s', attempt, until_text, who)
          end
        end
        answer[at + 3], wanted, looks = taken, wanted - taken, looks - taken
      end
      if taken < many and bytes < max_bytes then
        begun = at
        break
      end
    end
  end
  place = place + 1
end
if wanted > 0 and bytes >= max_bytes then answer[2] = 0 end

-- The reason that blocks a topic. Other topics continue; without any other topic, the call fails with this reason.
local broken
if place <= last_arg and wanted > 0 and bytes < max_bytes then
-- The general path handles the rest from there.
--# include type, topic, defaults, policy, stats, alarm, gen, fields, envelope, hour, bucket, note, ends, finish, kill, lease

local wait, dropped, expired, buried, newer = nil, 0, 0, 0, 0
local function come_back(ms) if not wait or ms < wait then wait = ms end end

-- Number of messages that the topic may hand out now: all, or the remainder of its pause and rate (messages a second).
-- The rate is a leaky bucket (GCRA) with a burst of 100 ms, at least one message; `tat` is the time when the bucket is
-- empty.
local function allowance(no, paused, rate, tat)
  if paused then return 0 end
  if not rate then return math.huge end
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

-- The kind of an entry's envelope: ready (to be leased), stale, expired, malformed, newer. Nothing in this function may
-- fail.
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

-- Settles an entry that will not be delivered. Returns true if it counted as ready until now.
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

-- Moves a blocked entry from the queue, which could otherwise never become empty, into its message's bucket, to return
-- in ten seconds.
local function set_aside(no, entry, env)
  local due = #env < 16 and now or struct.unpack('>I8', env, 9)
  bucket_check(no, due)
  bucket_add(bucket_of(no, due), now + 10000, { now + 10000, sub(entry, 1, -8) })
end

-- Hands out the messages of `heads` (key, head, …) under their leases (end, receipt, …). Leases come first: a lease
-- whose message was not handed out ends by itself, a message without a lease would be stuck.
local function lease_out(no, leases, heads, until_ms)
  note_lease(until_ms - now)
  alarm('leases', until_ms)
  redis.call('ZADD', base .. 'leases', unpack(leases))
  for i = 1, #heads, 2 do call('SETRANGE', heads[i], '0', heads[i + 1]) end
  for i = 1, #heads, 2 do
    local _, attempt = struct.unpack('>I4I2', heads[i + 1], 25)
    note(no, sub(heads[i], #base + #no + 4), 'leased %d %.0f %s', attempt, until_ms, who)
  end
end

-- Takes up to `n` from one topic. Returns the number taken, the number of visited entries, and whether the queue is at
-- its end. Entries are read first, and leave the list once all are settled: an error in between leaves stale entries,
-- never a lost one.
local function take(no, n, until_ms)
  local queue, prefix = base .. 'r:' .. no, base .. 'm:' .. no .. ':'
  local entries = redis.call('LRANGE', queue, 0, n - 1)
  if #entries == 0 then return 0, 0, true end
  must_be('zset', 'leases')
  must_be('hash', 'stats')
  gens(#entries)
  local keys = {}
  for i = 1, #entries do keys[i] = prefix .. sub(entries[i], 1, -12) end
  local large, envs, before, behind = tonumber(redis.call('HGET', base .. 't:' .. no, 'large') or nil), nil, 0, 0
  local leases, heads, back, met, seen, gone, taken = {}, {}, {}, {}, 0, 0, 0
  local until_text, until_bytes = string.format('%.0f', until_ms), struct.pack('>I8', until_ms)
  local receipt_start, stamp, ready_us = no .. ':', nil, nil
  for i = 1, #entries do
    if bytes >= max_bytes then break end
    if i > behind then
      before, behind = behind, large and math.min(behind + math.max(math.floor((max_bytes - bytes) / large), 1), #keys) or #keys
      envs = redis.call('MGET', unpack(keys, i, behind))
    end
    seen = i
    local entry, env, key = entries[i], envs[i - before], keys[i]
    local word, flags = look(entry, env)
    -- An interrupted pump may have left an entry twice.
    if met[key] then word = 'stale' elseif word ~= 'stale' then met[key] = true end
    if word == 'ready' then
      local g = gen_bytes(gen(flags > HASH and bit.band(flags, INDEXED) > 0))
      local receipt = receipt_start .. sub(entry, 1, -12) .. g
      heads[2 * taken + 1], heads[2 * taken + 2] = key, leased_head(env, g, until_bytes)
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
  if taken > 0 then lease_out(no, leases, heads, until_ms) end
  if #back > 0 then redis.call('RPUSH', queue, unpack(back)) end
  redis.call('LTRIM', queue, seen, '-1')
  count('ready', no, -taken - gone)
  count('leased', no, taken)
  return taken, seen, #entries < n or #back > 0
end

-- The policy of a topic for handing out.
local function terms(no)
  must_be('list', 'r:' .. no)
  local values = redis.pcall('HMGET', base .. 't:' .. no, 'paused', 'rate', 'tat', 'lease_ms')
  if values.err then must_be('hash', 't:' .. no) end
  return values
end

local served = #answer > 6

local function reserve_from(topic)
  local no = topic_no(topic)
  if not no then return end
  local at = begun or #answer
  local ok, policy_or_fault = pcall(terms, no)
  if not ok then
    broken = policy_or_fault
    answer[at + 1], answer[at + 2], answer[at + 3] = place - 4, 0, 0
    return
  end
  served = true
  local paused, rate, empty_at, topic_lease_ms = unpack(policy_or_fault)
  local allowed, interval, tat = allowance(no, paused, tonumber(rate), empty_at)
  local until_ms = now + (lease_ms or topic_lease(topic_lease_ms))
  if not begun then answer[at + 1], answer[at + 2], answer[at + 3] = place - 4, until_ms, 0 end
  local taken, over = 0, false
  while not over and wanted > 0 and looks > 0 and allowed > taken do
    local got, seen, last = take(no, math.min(wanted, looks, allowed - taken), until_ms)
    taken, wanted, looks = taken + got, wanted - got, looks - seen
    over = last or bytes >= max_bytes
  end
  answer[at + 3], begun = answer[at + 3] + taken, nil
  if looks <= 0 and not over then come_back(0) end
  if interval and taken > 0 then
    redis.call('HSET', base .. 't:' .. no, 'tat', string.format('%.0f', tat + taken * interval))
    if taken >= allowed and wanted > 0 then come_back(math.ceil(interval / 1000)) end
  end
end

while place <= last_arg and wanted > 0 and bytes < max_bytes do
  local ok, fault = pcall(reserve_from, ARGV[place])
  if not ok then
    broken, served = fault, false
    break
  end
  place = place + 1
end
if wanted > 0 and bytes >= max_bytes then come_back(0) end
if served then broken = nil end
answer[2], answer[3], answer[4], answer[5], answer[6] = wait or '', dropped, expired, buried, newer
end
--# include wake
if events then
--# include record
end
if broken then return redis.error_reply(broken.err or broken) end
return answer
