#!lua flags=allow-oom
-- recount: counts a topic's messages in one shard, compares the counts with the topic's counters, and corrects the
-- counters if requested. Counters of finished messages are assumed correct.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, look | mend, mark ("" at first, then as the last step answered, like the next two), entries
--          passed (0), ready so far (0)
-- RETURNS  counted | more (of the queues: continue with the following values) | changed (since the last step: start
--          over) | crowded (too many leases or buckets for one step), mark, entries passed, ready so far; after
--          counted, for each of ready, leased, accepted: the counter, and the count
-- COST     O(1) and a read of the envelope for each of 1,000 ready entries; O(1) for each lease and bucket, up to 10,000
--# include limits, arguments, registry, shard, topic, format, envelope, page, parked

arguments('recount', 6)
local no, mend = topic_no(ARGV[2]), one_of('what to do', ARGV[3], { 'look', 'mend' }) == 'mend'
local passed = number('entries passed', ARGV[5], 0, LAST_MS)
local ready = number('ready so far', ARGV[6], 0, LAST_MS)
if not no then return { 'counted', '', 0, 0, 0, 0, 0, 0, 0, 0 } end
local PAGE, MOST = 1000, 10000

local stats = {}
local NAMES = { 'ready', 'leased', 'accepted', 'delivered', 'cancelled', 'expired', 'purged', 'replaced' }
for _, name in ipairs(NAMES) do
  stats[name] = tonumber(redis.call('HGET', base .. 'stats', name .. ':' .. no)) or 0
end

-- Every move of a message takes a gen or changes a counter.
local mark = { redis.call('HGET', KEYS[1], 'gen') }
for i, name in ipairs(NAMES) do mark[i + 1] = stats[name] end
mark = table.concat(mark, ' ')
if ARGV[4] ~= '' and ARGV[4] ~= mark then return { 'changed', mark, 0, 0 } end

-- True if an entry counts as ready: as in `reserve`, which settles malformed entries.
local counted = {}
local function is_ready(entry)
  local member = string.sub(entry, 1, -8)
  if counted[member] then return false end
  counted[member] = true
  local m, why = read(no, string.sub(member, 1, -5))
  if not m then return why == 'malformed' end
  return m.state == PENDING and gen_bytes(m.gen) == string.sub(member, -4)
end

-- The ready queue, and then the lists of parked groups, from the passed entries on; each from the end, since entries leave a queue
-- at its head. A step takes a page, over as many queues as the page has room for: the fewer steps, the fewer moves in between.
local queue, skipped, room, group, since = 'r:' .. no, passed, PAGE, '', ''
for _ = 0, MOST do
  local length = redis.call('LLEN', base .. queue)
  if skipped < length then
    local entries = redis.call('LRANGE', base .. queue, -skipped - room, -skipped - 1)
    for _, entry in ipairs(entries) do if is_ready(entry) then ready = ready + 1 end end
    passed, skipped, room = passed + #entries, skipped + #entries, room - #entries
    if skipped < length then return { 'more', mark, passed, ready } end
  end
  skipped = skipped - length
  group, since = next_parked(no, since, group)
  queue = group and 'p:' .. no .. ':' .. group
  if not queue then break end
  if room == 0 then return { 'more', mark, passed, ready } end
end
if queue then return { 'crowded', mark, passed, ready } end

-- Calls `one` for each member of an index. Returns true if all were visited.
local function each_member(index, one)
  for first = 0, MOST - PAGE, PAGE do
    local members = redis.call('ZRANGE', base .. index, first, first + PAGE - 1)
    for _, member in ipairs(members) do one(member) end
    if #members < PAGE then return true end
  end
  return false
end

local leased, delayed = 0, 0
local whole = each_member('leases', function(receipt)
  if string.sub(receipt, 1, #no + 1) == no .. ':' then leased = leased + 1 end
end)
whole = each_member('alarms', function(index)
  if string.match(index, '^b:(%d+):') == no then delayed = delayed + redis.call('ZCARD', base .. index) end
end) and whole
if not whole then return { 'crowded', mark, passed, ready } end

local pending = delayed + ready + leased + redis.call('ZCARD', base .. 'd:' .. no)
local accepted = pending + stats.delivered + stats.cancelled + stats.expired + stats.purged + stats.replaced
if mend then
  redis.call('HSET', base .. 'stats', 'ready:' .. no, ready, 'leased:' .. no, leased, 'accepted:' .. no, accepted)
end
return { 'counted', mark, passed, ready, stats.ready, ready, stats.leased, leased, stats.accepted, accepted }
