#!lua flags=allow-oom
-- pump: handles everything due: moves messages to their ready queues, returns expired leases, removes expired
-- messages and markers.
--
-- MOVES    DELAYED -> READY; LEASED -> DELAYED | READY | DEAD | gone (the lease ran out); DELAYED | READY ->
--          expired; marker -> nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, epoch ("" if the caller does not own the shard: then only messages overdue by 10 s),
--          limit (1 to 500 ids), the latest ms that the caller accepts from this clock ("" or missing: any),
--          mark (of an owner: that of its last pump; "" if unknown; missing: no mark is left).
--          The first pump without an epoch since the owner's last pump is noted in `orphaned`: see `claim`.
--          A mark is the time of a pump and always grows. A stored mark below the given one or a stored epoch below the
--          caller's means that Redis came back with older data: noted in `older`, and gens are skipped
-- RETURNS  word, now_us, next due ms ("" for none), moved, leases returned, buried, expired, forgotten,
--          blocked (by a key of the wrong type; tried again later), then due ms and count of the moved messages, in runs
--            word      pumped | more (pump again at once) | held | ahead (the clock is later than accepted:
--                      nothing moved) | fenced <epoch> | not overdue
--          Where a mark was given, the mark that this pump leaves follows `pumped` and `more`, and after older data
--          ` older ` and the mark of that data
-- COST     O(log n) an id; each topic with due messages gets a fair share of the limit, oldest first
local registry = redis.pcall('HMGET', KEYS[1], 'layout', 'hold', 'epoch', 'history', 'orphaned', 'mark', 'fair')
local layout, held, epoch, orphaned = registry[1], registry[2], tonumber(registry[3]) or 0, registry[5]
local any_history, any_fair, events = registry[4], registry[7], nil
--# include now, shard, limits, format, ready, fair

local call, find = redis.call, string.find
local mine, limit, latest, given = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
if #ARGV < 3 or #ARGV > 5 or not (find(ARGV[2], '^%d*$') and find(ARGV[3], '^%d+$') and find(ARGV[4] or '', '^%d*$')
  and find(ARGV[5] or '', '^%d*$')) or limit < 1 or limit > MOST_IDS or (mine or 0) > LAST_MS or (latest or 0) > LAST_MS
  or (given or 0) >= LAST_MS then
--# include arguments
  arguments('pump', #ARGV > 3 and #ARGV < 6 and #ARGV or 3)
  if ARGV[2] ~= '' then number('the epoch', ARGV[2], 0, LAST_MS) end
  number('the limit', ARGV[3], 1, MOST_IDS)
  if ARGV[4] and ARGV[4] ~= '' then number('the latest ms', ARGV[4], 0, LAST_MS) end
  number('the mark', ARGV[5], 0, LAST_MS - 1)
end
local moved, returned, buried, expired, forgotten, blocked = 0, 0, 0, 0, 0, 0

-- The first alarms and their times; usually one is due.
local index_of_alarms = base .. 'alarms'
local alarms = call('ZRANGE', index_of_alarms, '0', '1', 'WITHSCORES')
local soonest, second = tonumber(alarms[2]), tonumber(alarms[4])

--# include pump/hindered, pump/marks, pump/alarms, pump/shares
-- Handles buckets inline, without a function: creating a function costs as much as a command. The other indexes follow
-- below, since few calls have any.
local indexes, runs
for i = 1, rang do
  -- Time of the next visit.
  local ms, text
  local member, n = alarms[2 * i - 1], math.ceil(limit / parts)
  local no = string.match(member, '^b:(%d+):')
  if limit == 0 or hours and no and unfinished[no] then
    text = alarms[2 * i]
    ms = tonumber(text)
  elseif not no then
    indexes = indexes or {}
    indexes[#indexes + 1], indexes[#indexes + 2] = member, n
    limit, parts = limit - n, parts - 1
  else
    local bucket = base .. member
    local found = redis.pcall('ZRANGE', bucket, '0', '1', 'WITHSCORES')
    local members, times, behind = nil, nil, found[2]
    if n > 1 and found[4] and tonumber(found[4]) <= now then
--# include pump/bucket_due
    elseif behind and tonumber(behind) <= now then
      members, times, behind = { found[1] }, { tonumber(behind), 1 }, found[4]
    end
--# include pump/move
    limit = limit - many
    if hours then
      unfinished[no], hours[no] = ms and ms <= now, hours[no] - 1
      if unfinished[no] or hours[no] == 0 then parts = parts - 1 end
    end
  end
  if ms and (not next_due or ms < next_due) then
    next_due, next_text = ms, text
    if ms <= now then more = true end
  end
end
if rang == 0 then
  -- With nothing due there is time to check that leases end in time.
  local ends = tonumber(call('ZSCORE', index_of_alarms, 'leases') or '')
  if ends and ends > now + LEASE_MS and ends > now + (tonumber(call('HGET', KEYS[1], 'longest_lease')) or 0) then
    indexes = { 'leases', 1 }
  end
end

if indexes then
--# include push, defaults, policy, stats, nearest, alarm, gen, fields, envelope, starts, hour, bucket, stale, note, ends, turn, finish, place, successor, receipt, kill, backoff, retry, lease, flight
local longest = math.max(longest_lease(), LEASE_MS)

--# include pump/index, pump/leases, pump/expiry, pump/history, pump/ends, pump/markers, pump/dispatch
trim_ready()
next_text = call('ZRANGE', index_of_alarms, '0', '0', 'WITHSCORES')[2]
end
if events then
--# include record
end

local answer = { (more and 'more' or 'pumped') .. marks, now_us, next_text or '', moved, returned, buried, expired, forgotten, blocked,
  runs and runs[1], runs and runs[2] }
for i = 3, runs and #runs or 0 do answer[9 + i] = runs[i] end
return answer
