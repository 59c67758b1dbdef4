#!lua flags=allow-oom
-- ack: ends delivered messages.
--
-- MOVES    LEASED -> delivered (gone, or a marker while its topic remembers)
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, then 1 a message (1 to 500): receipt
-- RETURNS  one answer a message: delivered | expired (the lease was lost: nothing was changed) | failed <why>
-- COST     O(log n) a message, n = leases of the shard
local registry = redis.pcall('HMGET', KEYS[1], 'layout')
local layout = registry[1]
--# include shard, now, limits, defaults, format, nearest

local last = #ARGV
if last < 2 or last > 1 + MOST_IDS then
--# include arguments
  arguments('ack', 1, 1)
end
local call, byte, sub, find = redis.call, string.byte, string.sub, string.find
-- Lists start with room for one element: most calls bring one message, and each growth costs.
local answers, keys = { nil }, { nil }
local bodies, leases, stats = base .. 'm:', base .. 'leases', base .. 'stats'

-- The fast path handles all messages together, without a function: creating a function costs as much as a command.
-- `whose` has the topic of each message. `blind` is true while only bodies need to go, because the topics forget their
-- messages and no index holds them. `together` is false if a receipt repeats, or a topic is unreadable.
local topics, whose, topic, met, blind, together = {}, { nil }, nil, nil, true, true
-- True if a topic has large messages, of which only the inspected part is read.
local any_history, any_large, events
for k = 1, last - 1 do
  local receipt = ARGV[k + 1]
  if not topic or find(receipt, topic.no, 1, true) ~= 1 or byte(receipt, #topic.no + 1) ~= 58 then
    local no = string.match(receipt, '^([^:]*):') or ''
    topic = topics[no]
    if not topic then
      local policy = redis.pcall('HMGET', base .. 't:' .. no, 'remember_own_ms', 'remember_generated_ms', 'history', 'large')
      if policy.err then together = false end
      any_history, any_large = any_history or policy[3] and policy[3] ~= '0', any_large or policy[4]
      topic = { no = no, ended = 0, own = tonumber(policy[1]) or REMEMBER_OWN_MS, generated = tonumber(policy[2]) or 0, left = nil,
        done = nil }
      topics[no] = topic
    end
  end
  local n = #topic.no
  local remember = #receipt == n + 21 and byte(receipt, n + 2) < 32 and topic.generated or topic.own
  blind = blind and remember == 0 and byte(receipt, -1) % 2 == 0
  keys[k], whose[k] = bodies .. sub(receipt, 1, -5), topic
  if last > 2 then
    met = met or {}
    if met[receipt] then together = false end
    met[receipt] = true
  end
end
-- The receipt in `leases` proves that the message is held; where the body is read anyway, the gen of its lease does.
local proof = together and (blind and redis.pcall('ZMSCORE', leases, unpack(ARGV, 2)) or any_large and {} or call('MGET', unpack(keys)))
-- As in `start_of`.
for k = 1, together and not blind and any_large and last - 1 or 0 do
  local start = redis.pcall('GETRANGE', keys[k], '0', '559')
  proof[k] = type(start) == 'string' and start
  together = together and (proof[k] ~= false or string.sub(start.err, 1, 9) == 'WRONGTYPE')
end
if not proof or proof.err then together = false end

-- `ended` has the receipts that end, with the body to delete, or the temporary marker in its place. `lists` are the
-- lists of `ends.lua`: each key with its new receipts.
local ended, marked, lists, gone, grouped, expiring, others = { nil }, { nil, nil }, nil, nil, nil, nil, nil
local remembered, into, now_bytes
for k = 1, together and blind and last - 1 or 0 do
  if proof[k] then
    topic, gone = whose[k], gone or { nil }
    topic.ended = topic.ended + 1
    ended[#ended + 1], gone[#gone + 1], answers[k] = ARGV[k + 1], keys[k], 'delivered'
  else
    answers[k] = 'expired'
  end
end
for k = 1, together and not blind and last - 1 or 0 do
  local receipt, env = ARGV[k + 1], proof[k]
  local format, state, high, low = byte(env or '', 1, 4)
  local flags, group, expires = high and high * 256 + low, nil, false
  local whole = format == FORMAT and state == LEASED and #env >= 32 and sub(env, 5, 8) == sub(receipt, -4)
  if whole and flags > HASH and bit.band(flags, INDEXED) > 0 then
    local at = flags % 2 == HASH and 41 or 33
    expires = bit.band(flags, EXPIRES) > 0
    if expires then at = at + 8 end
    if bit.band(flags, BACKOFF) > 0 then at = at + 1 + (byte(env, at) or 0) end
    if bit.band(flags, GROUP) > 0 then
      local length = byte(env, at) or 0
      group, at = sub(env, at + 1, at + length), at + 1 + length
    end
    whole = at <= #env + 1
  end
  if not whole then
    others = others or {}
    others[#others + 1] = k
  else
    topic = whose[k]
    topic.ended = topic.ended + 1
    local n = #topic.no
    local remember = #receipt == n + 21 and byte(receipt, n + 2) < 32 and topic.generated or topic.own
    if remember == 0 then
      gone = gone or { nil }
      gone[#gone + 1] = keys[k]
    else
      local has_hash, m = flags % 2 == HASH, #marked
      if remember ~= remembered then
        -- The name as in `ends.lua`.
        local until_ms = now + remember
        remembered, into = remember, { string.format('%se:%d', base, until_ms + -until_ms % math.ceil(remember / 8)), nil }
        lists = lists or { nil }
        lists[#lists + 1] = into
      end
      now_bytes = now_bytes or struct.pack('>I8', now)
      into[#into + 1] = receipt
      marked[m + 1], marked[m + 2] = keys[k], (has_hash and '\1\5\0\1' or '\1\5\0\0') .. sub(env, 5, 16) .. now_bytes
        .. sub(env, 25, has_hash and 40 or 32)
    end
    if group then
      grouped = grouped or {}
      grouped[#grouped + 1], grouped[#grouped + 2] = base .. 'g:' .. group, sub(receipt, 1, -5)
    end
    if expires then
      expiring = expiring or {}
      expiring[#expiring + 1] = sub(receipt, 1, -5)
    end
    ended[#ended + 1], answers[k] = receipt, 'delivered'
  end
end

-- Indexes first, then bodies, leases last: a lease without a message ends by itself, a message without a lease would be
-- stuck.
if ended[1] then
  -- Stops at the first failure, usually a key of the wrong type. A read probes the type of `leases`.
  local failed = not blind and type(redis.pcall('ZCARD', leases)) == 'table'
  for no, of in pairs(topics) do
    if of.ended > 0 and not failed then
      of.left = redis.pcall('HINCRBY', stats, 'leased:' .. no, of.ended == 1 and '-1' or -of.ended)
      of.done = redis.pcall('HINCRBY', stats, 'delivered:' .. no, of.ended == 1 and '1' or of.ended)
      failed = type(of.left) == 'table' or type(of.done) == 'table'
    end
  end
  -- Number of completed lists, and the names of new lists.
  local listed, new = 0, nil
  for i = 1, not failed and lists and #lists or 0 do
    local pushed = redis.pcall('RPUSHX', unpack(lists[i]))
    if pushed == 0 then
      -- `ends` must name a list before the list exists.
      local name = sub(lists[i][1], #base + 1)
      local until_text = sub(name, 3)
      new = new or {}
      new[#new + 1] = name
      local nearer = redis.pcall('ZADD', base .. 'alarms', 'LT', 'CH', until_text, 'ends')
      if nearer == 1 then nearest = math.min(tonumber(until_text), nearest or LAST_MS) end
      local is_in = type(nearer) == 'number' and redis.pcall('ZADD', base .. 'ends', until_text, name)
      pushed = type(is_in) == 'number' and redis.pcall('RPUSH', unpack(lists[i]))
    end
    failed = type(pushed) ~= 'number'
    if failed then break end
    listed = i
  end
  -- Removals from these indexes cannot be undone, so they come last; a read probes `expiries`.
  if expiring and not failed then failed = type(redis.pcall('ZCARD', base .. 'expiries')) == 'table' end
  for i = 1, grouped and #grouped or 0, 2 do failed = failed or type(redis.pcall('ZREM', grouped[i], grouped[i + 1])) == 'table' end
  if failed then
    for i = 1, listed do redis.pcall('LTRIM', lists[i][1], '0', -#lists[i]) end
    for i = 1, new and #new or 0 do
      if call('EXISTS', base .. new[i]) == 0 then redis.pcall('ZREM', base .. 'ends', new[i]) end
    end
    for no, of in pairs(topics) do
      if type(of.left) == 'number' then call('HINCRBY', stats, 'leased:' .. no, of.ended) end
      if type(of.done) == 'number' then call('HINCRBY', stats, 'delivered:' .. no, -of.ended) end
    end
    together = false
  else
    if marked[1] then call('MSET', unpack(marked)) end
    if gone then call('UNLINK', unpack(gone)) end
    if expiring then call('ZREM', base .. 'expiries', unpack(expiring)) end
    call('ZREM', leases, unpack(ended))
    for k = 1, any_history and last - 1 or 0 do
      if answers[k] == 'delivered' then
        events = events or { nil }
        local e, no = #events, whose[k].no
        events[e + 1], events[e + 2], events[e + 3] = no, sub(ARGV[k + 1], #no + 2, -5), 'delivered'
      end
    end
  end
end

-- The general path handles the remaining messages one by one.
if others or not together then
local function one_by_one()
--# include type, fields, policy, stats, alarm, envelope, note, ends, finish, receipt
  must_be('zset', 'leases')
  must_be('hash', 'stats')
  local function ack(receipt)
    if not call('ZSCORE', leases, receipt) then return 'expired' end
    local no, id = receipt_parts(receipt)
    local m, why = read(no, id)
    if why == 'newer' or why == 'malformed' then error({ err = why .. ' envelope' }) end
    if m and m.state == LEASED then finish(m, 'delivered') end
    end_lease({ no = no }, receipt)
    return 'delivered'
  end
  -- A repeated receipt gets one answer.
  local words = {}
  for n = 1, together and #others or last - 1 do
    local k = together and others[n] or n
    local receipt = ARGV[k + 1]
    if not words[receipt] then
      local ok, word = pcall(ack, receipt)
      -- A fault fails only its own message.
      words[receipt] = ok and word or 'failed ' .. (type(word) == 'table' and word.err or word)
    end
    answers[k] = words[receipt]
  end
end
  local done, fault = pcall(one_by_one)
  local why = not done and (type(fault) == 'table' and fault.err or fault)
  -- If nothing was settled, the whole call is refused.
  if why and not (together and ended[1]) then return redis.error_reply(why) end
  for n = 1, why and #others or 0 do answers[others[n]] = 'failed ' .. why end
end
--# include wake
if events then
--# include record
end
return answers
