#!lua flags=allow-oom
-- ack: ends messages that were delivered.
--
-- MOVES    LEASED -> delivered (gone, or a marker while its topic remembers)
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, then 1 a message (1 to 500): receipt
-- RETURNS  one answer a message: delivered | expired (the lease was taken back: nothing was changed) | failed <why>
-- COST     O(log n) a message, n = leases of the shard
--# include now, shard, arguments, topic, alarm, envelope, finish, receipt

arguments('ack', 1, 1)
must_be('zset', 'leases')
must_be('hash', 'stats')
local held_until = redis.call('ZMSCORE', base .. 'leases', unpack(ARGV, 2))
local answers, settled, bodies, words = {}, {}, {}, {}
-- For each topic: how many leases end here, and how many of them with nothing but a body to go.
local ended, bare = {}, {}
local byte, sub = string.byte, string.sub

-- The receipts of a call are most often of one topic: its number, how they begin, and whether it forgets the
-- generated ids that it delivered.
local no, prefix, forgets, many, few = nil, '', nil, 0, 0
local function tally()
  if not no then return end
  ended[no], bare[no] = (ended[no] or 0) + many, (bare[no] or 0) + few
  many, few = 0, 0
end
local function open_topic(receipt)
  tally()
  no = receipt_parts(receipt)
  prefix, forgets = no .. ':', nil
  forgets = policy(no, 'remember_generated_ms') == 0
end

local function finish_other(receipt)
  local m, why = read(receipt_parts(receipt))
  if why == 'newer' or why == 'malformed' then error({ err = why .. ' envelope' }) end
  if m and m.state == LEASED then finish(m, 'delivered') end
end

local key, at, last, n = base .. 'm:', 1, #ARGV - 1, 0
local function ack_all()
  while at <= last do
    local receipt = ARGV[at + 1]
    local word = words[receipt]
    if held_until[at] and not word then
      if forgets == nil or sub(receipt, 1, #prefix) ~= prefix then open_topic(receipt) end
      -- A generated id that its topic forgets, in no index: nothing but the body has to go.
      if forgets and byte(receipt, -1) % 2 == 0 and #receipt == #prefix + 20 and byte(receipt, #prefix + 1) < 32 then
        few = few + 1
        bodies[#bodies + 1] = key .. sub(receipt, 1, -5)
      else
        finish_other(receipt)
      end
      n, many, word = n + 1, many + 1, 'delivered'
      settled[n], words[receipt] = receipt, word
    end
    answers[at], at = word or 'expired', at + 1
  end
end
-- A fault fails the one message, and the others go on behind it.
while at <= last do
  local ok, fault = pcall(ack_all)
  if not ok then
    local receipt = ARGV[at + 1]
    words[receipt] = 'failed ' .. (type(fault) == 'table' and fault.err or fault)
    answers[at], at = words[receipt], at + 1
  end
end
tally()
-- The bodies first: a lease without a message ends by itself, a message without a lease would be stuck.
if #bodies > 0 then redis.call('UNLINK', unpack(bodies)) end
if #settled > 0 then redis.call('ZREM', base .. 'leases', unpack(settled)) end
for topic, leases in pairs(ended) do count('leased', topic, -leases) end
for topic, delivered in pairs(bare) do count('delivered', topic, delivered) end
wake_timer()
return answers
