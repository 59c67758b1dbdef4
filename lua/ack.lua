#!lua flags=allow-oom
-- ack: ends messages that were delivered.
--
-- MOVES    LEASED -> delivered (gone, or a marker while its topic remembers)
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, then 1 a message (1 to 500): receipt
-- RETURNS  one answer a message: delivered | expired (the lease was taken back: nothing was changed) | failed <why>
-- COST     O(log n) a message, n = leases of the shard
--# include now, shard, topic, alarm, envelope, finish, receipt

must_be('zset', 'leases')
must_be('zset', 'markers')
must_be('hash', 'stats')
local receipts = {}
for i = 2, #ARGV do receipts[i - 1] = ARGV[i] end
local held_until = redis.call('ZMSCORE', base .. 'leases', unpack(receipts))

local answers, settled, bodies, words = {}, {}, {}, {}

-- For each topic: how many leases end here, and how many of them with nothing but a body to go.
local ended, bare = {}, {}

-- Whether nothing but the body has to go: a generated id that its topic forgets, in no index.
local forgets = {}
local function is_bare(no, receipt, id)
  if string.byte(receipt, -1) % 2 == 1 or not generated(id) then return false end
  if forgets[no] == nil then forgets[no] = policy(no, 'remember_generated_ms') == 0 end
  return forgets[no]
end

local function ack(receipt)
  local no, id = receipt_parts(receipt)
  if is_bare(no, receipt, id) then
    bodies[#bodies + 1] = base .. 'm:' .. no .. ':' .. id
    bare[no] = (bare[no] or 0) + 1
  else
    local m, why = read(no, id)
    if why == 'newer' or why == 'malformed' then error({ err = why .. ' envelope' }) end
    if m then finish(m, 'delivered') end
  end
  settled[#settled + 1] = receipt
  ended[no] = (ended[no] or 0) + 1
end

for i, receipt in ipairs(receipts) do
  if held_until[i] and not words[receipt] then
    local ok, fault = pcall(ack, receipt)
    words[receipt] = ok and 'delivered' or 'failed ' .. (type(fault) == 'table' and fault.err or fault)
  end
  answers[i] = words[receipt] or 'expired'
end
if #settled > 0 then redis.call('ZREM', base .. 'leases', unpack(settled)) end
if #bodies > 0 then redis.call('UNLINK', unpack(bodies)) end
for no, n in pairs(ended) do count('leased', no, -n) end
for no, n in pairs(bare) do count('delivered', no, n) end
wake_timer()
return answers
