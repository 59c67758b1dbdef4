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

--# include reserve/leased_head

-- The fast path handles plain messages as far as possible: topics without a pause, a rate and limits of groups, and entries of ready
-- messages in a known format that have not expired. `place` is the end of that part, `begun` the place of its topic in
-- the answer.
local place, begun = 5, nil
while place <= last_arg and wanted > 0 and bytes < max_bytes do
  local no = registry[2]
  if place > 5 then no = call('HGET', KEYS[1], 'topic:' .. ARGV[place]) end
  if no then
    local queue, prefix = base .. 'r:' .. no, base .. 'm:' .. no .. ':'
    local terms = redis.pcall('HMGET', base .. 't:' .. no, 'paused', 'rate', 'lease_ms', 'history', 'large', 'grouped')
    local entries = redis.pcall('LRANGE', queue, '0', wanted - 1)
    if terms.err or terms[1] or terms[2] or terms[6] or entries.err then break end
    local lease = lease_ms or terms[3] and math.max(math.min(tonumber(terms[3]) or LEASE_MS, LONGEST_LEASE_MS), 1) or LEASE_MS
    local until_ms, at, many = now + lease, #answer, #entries
    answer[at + 1], answer[at + 2], answer[at + 3] = place - 4, until_ms, 0
    if many > 0 then
--# include reserve/read
      if taken > 0 then
--# include reserve/lease
--# include reserve/hand_out
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
--# include topic, defaults, policy, stats, alarm, gen, fields, envelope, hour, bucket, note, ends, turn, finish, kill, lease

local wait, dropped, expired, buried, newer = nil, 0, 0, 0, 0
local function come_back(ms) if not wait or ms < wait then wait = ms end end

--# include reserve/allowance, reserve/entry, reserve/rates, reserve/groups, reserve/take, reserve/turns, reserve/topic

while place <= last_arg and wanted > 0 and bytes < max_bytes do
  local no = topic_no(ARGV[place])
  if no then reserve_from(no) end
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
