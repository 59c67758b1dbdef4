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
-- COST     O(log n) an id; each due bucket gets a fair share of the limit
--# include now, shard, topic, alarm, gen, envelope, bucket, ready, finish, place, receipt, kill, retry

local epoch, limit, latest = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local moved, returned, buried, expired, forgotten, blocked = 0, 0, 0, 0, 0, 0
local runs, more = {}, false

local function report(word)
  local head = redis.call('ZRANGE', base .. 'alarms', 0, 0, 'WITHSCORES')[2] or ''
  local answer = { word, now_us, head, moved, returned, buried, expired, forgotten, blocked }
  for i = 1, #runs do answer[9 + i] = runs[i] end
  return answer
end

if held then return report('held') end
if latest and now > latest then return report('ahead') end
if epoch == '' then
  if earliest + 10000 > now then return report('not overdue') end
else
  local known = tonumber(redis.call('HGET', KEYS[1], 'epoch')) or 0
  if tonumber(epoch) < known then return report('fenced ' .. known) end
  if tonumber(epoch) > known then redis.call('HSET', KEYS[1], 'epoch', epoch) end
end
must_be('hash', 'stats')

-- Sets an alarm to what is left of what it stands for. One in the past asks for another round.
local function rearm(member, first)
  if not first then
    redis.call('ZREM', base .. 'alarms', member)
    return
  end
  redis.call('ZADD', base .. 'alarms', first, member)
  if first <= now then more = true end
end

-- Leaves what cannot be pumped for later, so that one wrong key stops no other topic.
local function block(member)
  blocked = blocked + 1
  redis.call('ZADD', base .. 'alarms', now + 1000, member)
  return 0
end

local function pump_bucket(bucket, n)
  local no = string.match(bucket, '^b:(%d+):')
  if not no or not is('zset', bucket) or not is('list', 'r:' .. no) then return block(bucket) end
  local members = bucket_due(bucket, now, n)
  if #members > 0 then
    local first = bucket_head(bucket)
    for _, run in ipairs(bucket_runs(bucket, first, members)) do runs[#runs + 1] = run end
    local entries, stamp = {}, ready_stamp()
    for i = 1, #members do entries[i] = members[i] .. stamp end
    make_ready(no, entries)
    bucket_drop(bucket, #members)
    moved = moved + #members
  end
  rearm(bucket, bucket_head(bucket))
  return #members
end

-- The first `n` names of an index that are due, each handed to `one`, and taken out of the index. What cannot
-- be handled stays (a later format's, a wrong type on its way), to be tried again in ten seconds.
local function pump_index(index, n, one)
  if not is('zset', index) then return block(index) end
  local due = redis.call('ZRANGEBYSCORE', base .. index, '-inf', now, 'LIMIT', 0, n)
  for _, name in ipairs(due) do
    if pcall(one, name) then
      redis.call('ZREM', base .. index, name)
    else
      blocked = blocked + 1
      redis.call('ZADD', base .. index, now + 10000, name)
    end
  end
  rearm(index, tonumber(redis.call('ZRANGE', base .. index, 0, 0, 'WITHSCORES')[2]))
  return #due
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

local function expire(name)
  local no, id = string.match(name, '^(%d+):(.*)$')
  local m, why = read(no or '', id or '')
  if why == 'newer' then error('newer') end
  if not m or m.state ~= PENDING then return end
  finish_check(m)
  unplace(m)
  finish(m, 'expired')
  expired = expired + 1
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

local function pump_alarm(member, n)
  if member == 'leases' then return pump_index(member, n, lease_over) end
  if member == 'expiries' then return pump_index(member, n, expire) end
  if member == 'markers' then
    return pump_index(member, n, function(name) if not shift_forgotten(name) then forget(name) end end)
  end
  return pump_bucket(member, n)
end

local due = redis.call('ZRANGEBYSCORE', base .. 'alarms', '-inf', now, 'LIMIT', 0, 100)
if #due == 100 then more = true end
if #due > 0 then gens(limit) end
for i, member in ipairs(due) do
  local share = math.ceil(limit / (#due - i + 1))
  if share > 0 then limit = limit - pump_alarm(member, share) else more = true end
end
placed()
return report(more and 'more' or 'pumped')
