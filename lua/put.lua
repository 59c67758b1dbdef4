#!lua
-- put: stores new messages of one topic.
--
-- MOVES    nothing -> DELAYED, or -> READY if already due and the shard is not held; LEASED -> delivered (by an ack)
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, then 4 a message (1 to 500): id, due, options, envelope
--            id        16 raw bytes of a UUIDv7; or text of 1 to 128 bytes, for a message in a group followed by
--                      0x1F and the group
--            due       ms since the epoch, or "+" and a delay in ms, on this Redis's clock
--            options   words separated by spaces: replace, tried=<ms since the epoch, on this Redis's clock: start of the
--                      first try, whose answer was lost>, earlier (the id belongs elsewhere since the deployment
--                      grew: `moved` if not here), record=<16 hex digits> (a recorded write, which may be repeated:
--                      a repeat of a carried-out write gets the first answer); with replace, for a pending message:
--                      later or sooner (due at the later or the sooner of both times), within=<ms> (due that long
--                      after its first put at the latest), content (its due time stays), keep (its content stays),
--                      throttle=<ms> (its due time stays; the put is due no sooner than that long after the due time of
--                      the last delivery), swallow=<ms> (nothing is changed, nor within that time of a delivery);
--                      expected=<ms> and hash=<16 hex digits> (nothing is changed unless it is due at that time,
--                      and has the content of that hash); gen=<gen> or gen=any (nothing is changed unless a message
--                      of that gen, or of any, is there, in whatever state); alone: ack=<receipt in hex> (the put also
--                      ends that leased message, whose place it takes under the same id)
--            envelope  see docs/protocol.md; state, gen, due, at, delivery, attempt are filled in here
-- RETURNS  now_us, then one answer a message: stored | ready | exists <state> <ms> | conflict <state> <ms> |
--          again <state> <old due ms> <due ms> (merged with a pending message, or due behind a leased, delivered or
--          dead one) | changed <state> <ms> (not as expected) | unknown (nothing is there to be as expected) | leased |
--          stale | moved (not here: put into the current shard) | cancelled (the acked message was cancelled: it has
--          ended, and nothing is stored) | expired (the lease was lost: nothing is changed) | refused <why>; <ms> is
--          the due time of a pending message, the end of a finished message
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
-- except a record that was not carried out, no script-visible fields except a hash and a group, and is not due in fair order.
local terms = no and redis.pcall('HMGET', base .. 't:' .. no, 'max_attempts', 'expire_after_ms', 'history', 'durability', 'large', 'group_order') or nil
local any_fair = terms and terms[6] == 'fair'
if terms and terms[4] then
--# include durability
  must_wait(no, topic)
end
--# include put/prepare, put/plain

if accepted > 0 then
--# include put/indexes
  -- The bodies come last, in one command: an interrupted put leaves stale entries, never a message that a repeat finds
  -- and no entry leads to.
  if failed then
    -- The general path tells each message its own fault; what was added so far leads nowhere.
    at, answers = 3, { now_us }
  else
    call('MSET', unpack(bodies))
    if carried then call('HSET', base .. 'carried', unpack(carried)) end
    -- Repeated now and then, since a restarted Redis has lists again.
    if counted and counted % 1024 < accepted then
--# include tables
    end
--# include put/tell
  end
end

-- The general path handles the remaining messages one by one, from the first that is not plain.
if at <= last then
local function one_by_one()
--# include hour, due, names, topic, topic_new, fields, policy, stats, alarm, gen, envelope, bucket, backoff, stale, ready, fair, push, note, ends, turn, finish, once

gens((last - at + 1) / 4)
local is_new, expire_after
no, is_new = topic_number(topic)
local key_of = base .. 'm:' .. no .. ':'
max_default, expire_after = policies(no, 'max_attempts', 'expire_after_ms')
accepted = 0

--# include put/options, put/successor, put/again, put/throttle, put/merge, put/join, put/check

-- Functions for the option `ack`, created on demand: each costs as much as a command.
local followed, ack
local function of_acks()
--# include place, successor, receipt, flight, put/follow
  return judge_next, end_acked
end
--# include put/each

while at <= last do
  local ok, word = pcall(function()
    if ARGV[at + 2] ~= options_text then read_options(ARGV[at + 2]) end
    if receipt and not followed then followed, ack = of_acks() end
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
