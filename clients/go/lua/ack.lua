#!lua flags=allow-oom
-- ack: ends delivered messages.
--
-- MOVES    LEASED -> delivered (gone, or a marker while its topic remembers) | DELAYED | READY (as its successor)
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

--# include ack/topics, ack/proof, ack/judge

-- Indexes first, then bodies, leases last: a lease without a message ends by itself, a message without a lease would be
-- stuck.
if ended[1] then
--# include ack/indexes
  if failed then
    -- The general path tells each message its own fault.
    together = false
  else
--# include ack/write
  end
end

-- The general path handles the remaining messages one by one.
if others or not together then
local function one_by_one()
local held, any_fair = unpack(redis.call('HMGET', KEYS[1], 'hold', 'fair'))
--# include fields, policy, stats, alarm, gen, envelope, hour, bucket, ready, fair, push, note, ends, turn, finish, place, successor, receipt, flight
--# include ack/each
end
  one_by_one()
end
--# include wake
if events then
--# include record
end
return answers
