#!lua flags=allow-oom
-- configure: sets the policy of a topic in one shard.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, then 2 a setting: field, value ("" for the default). Fields: max_attempts (0:
--          unlimited; at most 65535), lease_ms (1 to a day), backoff (see lib/backoff.lua), expire_after_ms (0: never),
--          remember_cancelled_ms, remember_own_ms, remember_generated_ms (these four at most 2^52), repeats (deliver |
--          refuse: for a put whose result may be forgotten), paused (1), rate (messages a second, of this shard: 10^-9
--          to 10^9), codec (none | zstd | zstd:<dictionary id>), history (approximate number of kept events: at most
--          100,000; 0: none, and kept events are deleted), history_for_ms (their retention: at least 1,000),
--          dead_for_ms (retention of dead letters; 0: for ever), dead_max (maximum in this shard; 0: unlimited). Sweeps
--          enforce these two; group_in_flight (maximum leased messages of a group: at most 65535; 0: unlimited);
--          group_failed (pass | block: whether other messages of the group pass a failed one); group_rate (maximum messages of a group in a second, minute
--          or hour: <1 to 9999999>/s, /m or /h; 0: unlimited); group_order (ready | fair:
--          as messages became ready, or the groups in turn); durability (memory | disk |
--          replica:<1 to 9>: confirmation before a write is answered)
-- RETURNS  every field that is set, as field, value, …; includes notes of scripts
-- COST     O(1); O(topics) when setting history, group_order or durability, O(n log n) when setting a limit of groups, n = groups with parked
--          messages
--# include now, limits, arguments, registry, shard, names, topic, topic_new, topics, defaults, policy, backoff, nearest, alarm, histories, durabilities

arguments('configure', 2, 2)

-- For each setting, a function that validates its text.
local function whole(least, most) return function(text) return within(text, least, most) end end
local span = whole(0, LONGEST_SPAN_MS)
local fits = {
  max_attempts = whole(0, 65535),
  lease_ms = whole(1, LONGEST_LEASE_MS),
  backoff = is_backoff,
  expire_after_ms = span,
  remember_cancelled_ms = span,
  remember_own_ms = span,
  remember_generated_ms = span,
  repeats = function(text) return text == 'deliver' or text == 'refuse' end,
  paused = whole(1, 1),
  rate = function(text)
    local rate = string.find(text, '^[%d.]+$') and tonumber(text) or 0
    return rate >= 1e-9 and rate <= 1e9
  end,
  codec = function(text)
    return text == 'none' or text == 'zstd' or within(string.match(text, '^zstd:(.+)$') or '', 0, 4294967295)
  end,
  -- The form of XADD: no leading zeros.
  history = function(text) return text == '0' or string.find(text, '^[1-9]') and within(text, 1, 100000) end,
  history_for_ms = whole(1000, LONGEST_SPAN_MS),
  dead_for_ms = span,
  dead_max = whole(0, 4294967295),
  group_in_flight = whole(0, 65535),
  group_failed = function(text) return text == 'pass' or text == 'block' end,
  group_rate = function(text)
    local messages = string.match(text, '^([1-9]%d*)/[smh]$')
    return text == '0' or messages and within(messages, 1, 9999999)
  end,
  group_order = function(text) return text == 'ready' or text == 'fair' end,
  durability = function(text) return text == 'memory' or text == 'disk' or string.find(text, '^replica:[1-9]$') end,
}

for i = 3, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  if not fits[field] then refuse('no such setting: ' .. field) end
  if value ~= '' and not fits[field](value) then refuse(field .. ' cannot be ' .. value) end
end
local no, is_new = topic_number(ARGV[2])
if is_new then topic_open(ARGV[2], no) end
local key = base .. 't:' .. no
-- Longest memory of finished ids ever configured, for `forget_quiet`: earlier ids are still remembered.
local remembered = tonumber(redis.call('HGET', key, 'remembered_ms')) or POLICY.remember_cancelled_ms
local longest = remembered
for i = 3, #ARGV, 2 do
  if string.find(ARGV[i], '^remember_') then longest = math.max(longest, tonumber(ARGV[i + 1]) or 0) end
end
if longest > remembered then redis.call('HSET', key, 'remembered_ms', string.format('%.0f', longest)) end
for i = 3, #ARGV, 2 do
  -- The mark first: without it, no reserve looks at groups.
  if string.find(ARGV[i], '^group_') and ARGV[i + 1] ~= '' then redis.call('HSET', key, 'grouped', '1') end
  if ARGV[i + 1] == '' then
    redis.call('HDEL', key, ARGV[i])
  else
    redis.call('HSET', key, ARGV[i], ARGV[i + 1])
  end
end
for i = 3, #ARGV, 2 do
  if ARGV[i] == 'history' then
    if ARGV[i + 1] == '' or ARGV[i + 1] == '0' then drop_history(no) end
    note_topics()
  elseif string.find(ARGV[i], '^group_') then
    -- Groups that wait may go on by a looser limit, or without turns: a turn too many is dropped.
    local turns, full = base .. 'n:' .. no, base .. 'k:' .. no
    if ARGV[i] == 'group_order' then note_topics() end
    if redis.call('EXISTS', full) == 1 then redis.pcall('ZUNIONSTORE', turns, '2', turns, full, 'WEIGHTS', '1', '1000', 'AGGREGATE', 'MIN') end
    -- A new rate begins with full buckets.
    if ARGV[i] == 'group_rate' then redis.call('UNLINK', base .. 'v:' .. no, base .. 'y:' .. no) end
  elseif ARGV[i] == 'durability' then
    note_durabilities()
  elseif ARGV[i] == 'history_for_ms' and redis.call('EXISTS', base .. 'h:' .. no) == 1 then
    -- Some may be too old now.
    alarm('markers', now)
    redis.pcall('ZADD', base .. 'markers', now, 'h:' .. no)
  end
end
--# include wake
-- Waiting consumers may receive messages now.
redis.call('SPUBLISH', base .. 'ready', ARGV[2])
return redis.call('HGETALL', key)
