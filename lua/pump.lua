#!lua flags=allow-oom
-- pump: moves what is due. Messages to their ready queues, leases that ran out back, expired messages and
-- forgotten markers away.
--
-- MOVES    DELAYED -> READY; LEASED -> DELAYED | READY | DEAD | gone (its time ran out); DELAYED | READY ->
--          expired; marker -> nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, epoch ("" where the caller does not own the shard: then only what is overdue by 10 s),
--          limit (1 to 500 ids), the latest ms that the caller believes this clock can read ("" or none: any)
-- RETURNS  word, now_us, next due ms ("" for none), moved, leases returned, buried, expired, forgotten,
--          blocked (by a key of the wrong type; tried again later), then due ms and count of what was moved, in runs
--            word      pumped | more (go again at once) | held | ahead (the clock reads more than is believed:
--                      nothing was moved) | fenced <epoch> | not overdue
-- COST     O(log n) an id; each topic with something due gets a fair share of the limit, its oldest first
--# include now, arguments, shard, ready, bucket_due, lease

arguments('pump', #ARGV == 3 and 3 or 4)
local mine = ARGV[2] ~= '' and number('the epoch', ARGV[2], 0, LAST_MS)
local limit = number('the limit', ARGV[3], 1, MOST_IDS)
local latest = ARGV[4] and ARGV[4] ~= '' and number('the latest ms', ARGV[4], 0, LAST_MS)
local moved, returned, buried, expired, forgotten, blocked = 0, 0, 0, 0, 0, 0
local runs, more = {}, false

local function report(word, next_due)
  local head = next_due and string.format('%.0f', next_due) or ''
  local answer = { word, now_us, head, moved, returned, buried, expired, forgotten, blocked }
  for i = 1, #runs do answer[9 + i] = runs[i] end
  return answer
end

-- The first alarms and their times; most of the time one is due.
local alarms = redis.pcall('ZRANGE', base .. 'alarms', '0', '1', 'WITHSCORES')
if alarms.err then must_be('zset', 'alarms') end
if #alarms == 4 and tonumber(alarms[4]) <= now then
  alarms = redis.call('ZRANGE', base .. 'alarms', '0', '100', 'WITHSCORES')
end
local soonest = tonumber(alarms[2])

if held then return report('held', soonest) end
if latest and now > latest then return report('ahead', soonest) end
if not mine then
  if not soonest or soonest + 10000 > now then return report('not overdue', soonest) end
else
  if mine < epoch then return report('fenced ' .. epoch, soonest) end
  if mine > epoch then redis.call('HSET', KEYS[1], 'epoch', ARGV[2]) end
end

-- When the shard has to be looked at next, of what is known so far.
local next_due

local function no_later_than(ms)
  if not next_due or ms < next_due then next_due = ms end
end

-- Sets an alarm to what is left of what it stands for: a time as text. One in the past asks for another round.
local function rearm(member, due)
  if not due then
    redis.call('ZREM', base .. 'alarms', member)
    return
  end
  redis.call('ZADD', base .. 'alarms', due, member)
  local ms = tonumber(due)
  no_later_than(ms)
  if ms <= now then more = true end
end

-- Leaves what cannot be pumped for later, so that one wrong key stops no other topic.
local function block(member)
  blocked = blocked + 1
  redis.call('ZADD', base .. 'alarms', now + 1000, member)
  no_later_than(now + 1000)
  return 0
end

-- The topics of which more is due than was moved: their later hours wait, so that the oldest goes first.
local unfinished = {}

local function pump_bucket(bucket, no, n)
  local members, times, behind = bucket_due(bucket, now, n)
  if not members then return block(bucket) end
  if #members > 0 then
    local entries, stamp = {}, ready_stamp()
    for i = 1, #members do entries[i] = members[i] .. stamp end
    if not make_ready(no, entries) then return block(bucket) end
    bucket_drop(bucket, #members)
    moved = moved + #members
    for i = 1, #times do runs[#runs + 1] = times[i] end
  end
  rearm(bucket, behind)
  unfinished[no] = behind and tonumber(behind) <= now
  return #members
end

-- Buckets at once; the other indexes below, since few calls have any: what they need is not even defined here.
local indexes, rang = {}, 0
for i = 2, #alarms, 2 do
  local ms = tonumber(alarms[i])
  if ms > now or rang == 100 then
    no_later_than(ms)
    if ms <= now then more = true end
    break
  end
  rang = rang + 1
end
-- Each topic and each index has a share of the limit. `hours` says how many of each topic's buckets are due.
local topics, hours, parts = {}, {}, 0
for i = 1, rang do
  local no = string.match(alarms[2 * i - 1], '^b:(%d+):')
  topics[i] = no
  if not (no and hours[no]) then parts = parts + 1 end
  if no then hours[no] = (hours[no] or 0) + 1 end
end
for i = 1, rang do
  local member, no = alarms[2 * i - 1], topics[i]
  if limit == 0 or no and unfinished[no] then
    no_later_than(tonumber(alarms[2 * i]))
    more = true
  elseif no then
    limit = limit - pump_bucket(member, no, math.ceil(limit / parts))
    hours[no] = hours[no] - 1
    if unfinished[no] or hours[no] == 0 then parts = parts - 1 end
  else
    local share = math.ceil(limit / parts)
    indexes[#indexes + 1], indexes[#indexes + 2] = member, share
    limit, parts = limit - share, parts - 1
  end
end
if rang == 0 then
  -- With nothing due there is time to see whether the leases end when they can.
  local ends = tonumber(redis.call('ZSCORE', base .. 'alarms', 'leases') or '')
  if ends and ends > now + LEASE_MS and ends > now + longest_lease() then indexes = { 'leases', 1 } end
end
if #indexes == 0 then return report(more and 'more' or 'pumped', next_due) end

--# include topic, alarm, gen, envelope, bucket, stale, finish, place, receipt, kill, backoff, retry

-- The first `n` names of an index that are due, each handed to `one`, and taken out of the index. What cannot
-- be handled stays (a later format's, a wrong type on its way), to be tried again in ten seconds.
local function pump_index(index, n, one, then_on)
  if not is('zset', index) then return block(index) end
  local names = redis.call('ZRANGEBYSCORE', base .. index, '-inf', now, 'LIMIT', 0, n)
  for _, name in ipairs(names) do
    if pcall(one, name) then
      redis.call('ZREM', base .. index, name)
    else
      blocked = blocked + 1
      redis.call('ZADD', base .. index, now + 10000, name)
    end
  end
  local go_on = then_on and then_on()
  rearm(index, go_on and string.format('%.0f', now) or redis.call('ZRANGE', base .. index, '0', '0', 'WITHSCORES')[2])
end

local function lease_over(receipt)
  local no, id = receipt_parts(receipt)
  local m, why = read(no, id)
  if why == 'newer' then error('newer') end
  if why == 'malformed' or m and m.state == LEASED and not is_whole(m) then
    kill_malformed(no, id)
    count('leased', no, -1)
    returned, buried = returned + 1, buried + 1
    return
  end
  if not m or m.state ~= LEASED or id .. gen_bytes(m.gen) ~= string.sub(receipt, #no + 2) then return end
  local word = give_back(m, nil, 'its lease ran out at the last attempt')
  count('leased', no, -1)
  returned = returned + 1
  if word == 'buried' then buried = buried + 1 end
  if word == 'expired' then expired = expired + 1 end
end

-- Ends a lease at `until_ms` that would last longer.
local function cut_lease(receipt, until_ms)
  local no, id = receipt_parts(receipt)
  local m = read(no, id)
  if m and m.state == LEASED and id .. gen_bytes(m.gen) == string.sub(receipt, #no + 2) then
    m.at = until_ms
    write_head(m)
  end
  redis.call('ZADD', base .. 'leases', until_ms, receipt)
end

-- Leases that end later than any that is given now: the clock read ahead when they were. From now on they last as long
-- as the longest. Whether there may be more of them.
local function cut_leases()
  local far = now + longest_lease()
  local receipts = redis.call('ZRANGEBYSCORE', base .. 'leases', string.format('(%.0f', far), '+inf', 'LIMIT', 0, 100)
  for _, receipt in ipairs(receipts) do cut_lease(receipt, far) end
  return #receipts == 100
end

local function expire(name)
  local no, id = string.match(name, '^(%d+):(.*)$')
  local m, why = read(no or '', id or '')
  if why == 'newer' then error('newer') end
  if not m or m.state ~= PENDING then return end
  bucket_check(m.no, m.due)
  if is_whole(m) then
    finish(m, 'expired')
    expired = expired + 1
  else
    kill_malformed(no, id)
    buried = buried + 1
  end
  unplace(m)
end

-- A marker whose time is over. The id may have been put anew since: then it is no marker any more.
local function forget(name)
  local no, id = string.match(name, '^(%d+):(.*)$')
  local m, why = read(no or '', id or '')
  if why == 'newer' then error('newer') end
  if m and m.state > DEAD then
    redis.call('UNLINK', base .. 'm:' .. name)
    forgotten = forgotten + 1
  end
end

local function shift_forgotten(member)
  local group = string.match(member, '^shift:(.*)$')
  if not group then return false end
  redis.call('UNLINK', base .. 'shift:' .. group)
  return true
end

local function forget_any(name)
  if not shift_forgotten(name) then forget(name) end
end

local HANDLED = { leases = lease_over, expiries = expire, markers = forget_any }

must_be('hash', 'stats')
local most = 0
for i = 2, #indexes, 2 do most = most + indexes[i] end
gens(most)
for i = 1, #indexes, 2 do
  local one = HANDLED[indexes[i]]
  if one then pump_index(indexes[i], indexes[i + 1], one, indexes[i] == 'leases' and cut_leases) else block(indexes[i]) end
end
trim_ready()
return report(more and 'more' or 'pumped', tonumber(redis.call('ZRANGE', base .. 'alarms', 0, 0, 'WITHSCORES')[2]))
