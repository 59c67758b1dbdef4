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
--          caller's means that Redis came back with older data: noted in `older`
-- RETURNS  word, now_us, next due ms ("" for none), moved, leases returned, buried, expired, forgotten,
--          blocked (by a key of the wrong type; tried again later), then due ms and count of the moved messages, in runs
--            word      pumped | more (pump again at once) | held | ahead (the clock is later than accepted:
--                      nothing moved) | fenced <epoch> | not overdue
--          Where a mark was given, the mark that this pump leaves follows `pumped` and `more`, and after older data
--          ` older ` and the mark of that data
-- COST     O(log n) an id; each topic with due messages gets a fair share of the limit, oldest first
local registry = redis.pcall('HMGET', KEYS[1], 'layout', 'hold', 'epoch', 'history', 'orphaned', 'mark')
local layout, held, epoch, orphaned = registry[1], registry[2], tonumber(registry[3]) or 0, registry[5]
local any_history, events = registry[4], nil
--# include now, shard, limits, ready

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
local alarms = redis.pcall('ZRANGE', index_of_alarms, '0', '1', 'WITHSCORES')
if alarms.err then return redis.error_reply('DQTYPE ' .. index_of_alarms .. ' is not a zset') end
local soonest, second = tonumber(alarms[2]), tonumber(alarms[4])

-- The reason if the call may not move anything.
local hindered, lost_claim
if held then
  hindered = 'held'
elseif latest and now > latest then
  hindered = 'ahead'
elseif not mine then
  if not soonest or soonest + 10000 > now then hindered = 'not overdue' end
elseif mine < epoch then
  hindered = 'fenced ' .. epoch
elseif mine > epoch then
  -- Later claims increment this number, and must be able to.
  if mine > LONGEST_SPAN_MS then return redis.error_reply('DQARG the epoch ' .. ARGV[2] .. ' exceeds every epoch of a claim') end
  call('HSET', KEYS[1], 'epoch', string.format('%.0f', mine))
  lost_claim = true
end
if hindered then
  return { hindered, now_us, alarms[2] or '', moved, returned, buried, expired, forgotten, blocked }
end
-- The word's second half: the mark that this pump leaves, and the mark of older data.
local marks = ''
if mine then
  if orphaned then call('HDEL', KEYS[1], 'orphaned') end
  if ARGV[5] then
    local mark, text = tonumber(registry[6]) or 0, registry[6]
    local is_older = lost_claim or (given or 0) > mark
    if is_older or not text or now >= mark + 1000 or now < mark then
      text = string.format('%.0f', math.max(now, mark + 1, (given or 0) + 1))
      if is_older then
        call('HSET', KEYS[1], 'mark', text, 'older', string.format('%.0f %.0f', mark, now))
        text = string.format('%s older %.0f', text, mark)
      else
        call('HSET', KEYS[1], 'mark', text)
      end
    end
    marks = ' ' .. text
  end
elseif not orphaned or now < (tonumber(orphaned) or LAST_MS) then
  call('HSET', KEYS[1], 'orphaned', string.format('%.0f', now))
end

-- Number of ringing alarms, and the shard's next due time as known so far: as a number, and as text, which saves
-- formatting.
local rang, more, next_due, next_text = 1, false, second, alarms[4]
if not soonest or soonest > now then
  rang, next_due, next_text = 0, soonest, alarms[2]
elseif second and second <= now then
  alarms = call('ZRANGE', index_of_alarms, '0', '100', 'WITHSCORES')
  rang = 2
  while rang < 100 and alarms[2 * rang + 2] and tonumber(alarms[2 * rang + 2]) <= now do rang = rang + 1 end
  next_text = alarms[2 * rang + 2]
  next_due = tonumber(next_text)
  more = next_due and next_due <= now or false
end

-- Each topic and each index has a share of the limit. `hours` has the number of due buckets per topic; `unfinished` has
-- the topics with more due than moved: their later hours wait, so that the oldest goes first.
local hours, unfinished, parts = nil, nil, rang
if rang > 1 then hours, unfinished = {}, {} end
for i = 1, hours and rang or 0 do
  local no = string.match(alarms[2 * i - 1], '^b:(%d+):')
  if no then
    if hours[no] then parts = parts - 1 end
    hours[no] = (hours[no] or 0) + 1
  end
end
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
--# include bucket_due
    elseif behind and tonumber(behind) <= now then
      members, times, behind = { found[1] }, { tonumber(behind), 1 }, found[4]
    end
    local many = members and #members or 0
    if many > 0 then
      local stamp = struct.pack('>I7', now_us)
      for j = 1, many do members[j] = members[j] .. stamp end
    end
    if found.err or many > 0 and not make_ready(no, members) then
      -- Postponed, so that a wrong key stops no other topic.
      ms, many, blocked = now + 1000, 0, blocked + 1
      text = string.format('%d', ms)
      call('ZADD', index_of_alarms, text, member)
    else
      if many > 0 then
        call('ZREMRANGEBYRANK', bucket, '0', many == 1 and '0' or many - 1)
        moved = moved + many
        if any_history then
          events = events or {}
          for j = 1, many do
            local e = #events
            events[e + 1], events[e + 2], events[e + 3] = no, string.sub(members[j], 1, -12), 'ready'
          end
        end
        for j = 1, runs and #times or 0 do runs[#runs + 1] = times[j] end
        runs = runs or times
      end
      if behind then
        call('ZADD', index_of_alarms, behind, member)
        ms, text = tonumber(behind), behind
      else
        call('ZREM', index_of_alarms, member)
      end
    end
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
--# include type, push, defaults, policy, stats, nearest, alarm, gen, format, fields, envelope, starts, hour, bucket, stale, note, ends, finish, place, receipt, kill, backoff, retry, lease
local longest = math.max(longest_lease(), LEASE_MS)

-- Sets an alarm to the rest of its index: a time as text. A past time triggers another round.
local function rearm(member, due)
  if not due then
    call('ZREM', index_of_alarms, member)
    return
  end
  call('ZADD', index_of_alarms, due, member)
  if tonumber(due) <= now then more = true end
end

-- Postpones blocked work, so that a wrong key stops nothing else.
local function block(member)
  blocked = blocked + 1
  call('ZADD', index_of_alarms, now + 1000, member)
end

-- Hands the first `n` due names of an index to `one`, and removes them from the index. Blocked names (a later format, a
-- key of the wrong type) stay, to be retried in ten seconds.
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
  if m.state == PENDING then note(no, id, 'lease_ended %.0f %s', m.due, word) end
  if word == 'buried' then buried = buried + 1 end
  if word == 'expired' then expired = expired + 1 end
end

-- Shortens a lease to end at `until_ms`.
local function cut_lease(receipt, until_ms)
  local no, id = receipt_parts(receipt)
  local m = read(no, id)
  if m and m.state == LEASED and id .. gen_bytes(m.gen) == string.sub(receipt, #no + 2) then
    m.at = until_ms
    write_head(m)
  end
  redis.call('ZADD', base .. 'leases', until_ms, receipt)
end

-- Shortens leases with a later end than any lease given now: the clock read ahead at the time. They now last as long as
-- the longest lease. Returns true if there may be more.
local function cut_leases()
  local far = now + longest
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

-- Trims a topic's expired history. Returns the time of the next check, or nil if nothing is left.
local function trim_history(no)
  local stream, kept = base .. 'h:' .. no, redis.pcall('HMGET', base .. 't:' .. no, 'history', 'history_for_ms')
  local span = tonumber(kept[2]) or HISTORY_FOR_MS
  -- Unreadable or untrimmable history is checked again later.
  if kept.err then return now + 10000 end
  if not kept[1] or kept[1] == '0' then
    call('UNLINK', stream)
    return nil
  end
  local trimmed = redis.pcall('XTRIM', stream, 'MINID', string.format('%.0f', math.max(now - span, 0)))
  -- A key of another type is not a history.
  if type(trimmed) == 'table' then return not find(trimmed.err, 'WRONGTYPE') and now + 10000 or nil end
  local first = redis.pcall('XRANGE', stream, '-', '+', 'COUNT', 1)
  if first.err then return now + 10000 end
  if not first[1] then
    call('UNLINK', stream)
    return nil
  end
  -- Batches events instead of a visit for each.
  return math.max(math.min(tonumber(string.match(first[1][1], '^%d+')), now) + span, now + math.max(math.floor(span / 8), 1000))
end

-- Forgets the markers of a list's entries, except stale entries. Returns entries of a later format.
local function forget(entries)
  local byte, sub, bodies = string.byte, string.sub, base .. 'm:'
  local keys, gone, ended, later, topic, any_large = {}, {}, 0, {}, nil, false
  for i = 1, #entries do
    keys[i] = bodies .. sub(entries[i], 1, -5)
    -- A message may be in the marker's place.
    if not any_large and not (topic and find(entries[i], topic, 1, true) == 1) then
      topic = string.match(entries[i], '^[^:]*:') or ':'
      any_large = is_large(sub(topic, 1, -2))
    end
  end
  local markers = keys[1] and starts_of(keys, any_large) or keys
  for i = 1, #entries do
    local format, state, _, _, a, b, c, d = byte(markers[i] or '', 1, 8)
    if d and state > DEAD then
      -- Compares without a string per gen.
      local e, f, g, h = byte(entries[i], -4, -1)
      if d == h and c == g and b == f and a == e then
        if format == FORMAT then
          ended = ended + 1
          gone[ended] = keys[i]
        elseif format > FORMAT then
          later[#later + 1] = entries[i]
        end
      end
    end
  end
  if gone[1] then call('UNLINK', unpack(gone)) end
  forgotten = forgotten + ended
  return later
end

-- Handles the first `n` entries of the marker lists whose time has passed. Entries of a later format wait for ten
-- seconds in a separate list, and so does an unreadable list.
local function pump_ends(n)
  if not is('zset', 'ends') then return block('ends') end
  local ends, again = base .. 'ends', now + 10000
  local lists = call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', '0', '100')
  for i = 1, #lists do
    local list = base .. lists[i]
    local entries = find(lists[i], '^e:%d+$') and redis.pcall('LRANGE', list, '0', n - 1) or {}
    local later = entries.err and {} or forget(entries)
    if later[1] then
      local name = string.format('e:%d', again)
      call('ZADD', ends, again, name)
      call('RPUSH', base .. name, unpack(later))
    end
    if entries[1] then call('LTRIM', list, #entries, '-1') end
    if entries.err or later[1] then blocked = blocked + 1 end
    n = n - #entries
    if n == 0 and call('EXISTS', list) == 1 then break end
    if entries.err then
      call('ZADD', ends, again, lists[i])
    else
      call('ZREM', ends, lists[i])
    end
    if n == 0 then break end
  end
  rearm('ends', call('ZRANGE', ends, '0', '0', 'WITHSCORES')[2])
end

-- Handles the first entries of `markers` whose time has passed: cursors of shifts, histories, and markers outside the
-- lists. After an interruption an id may have been put again: the stored value is then not a marker, and stays.
local function pump_markers(n)
  if not is('zset', 'markers') then return block('markers') end
  local names, bodies = call('ZRANGEBYSCORE', base .. 'markers', '-inf', now, 'LIMIT', 0, n), base .. 'm:'
  local keys, gone, later, any_large = {}, {}, {}, false
  for i = 1, #names do
    local no = string.match(names[i], '^(%d+):')
    keys[i], any_large = (no and bodies or base) .. names[i], any_large or no and is_large(no)
  end
  local markers = names[1] and starts_of(keys, any_large) or names
  for i = 1, #names do
    local marker = markers[i]
    local format, state = string.byte(marker or '', 1, 2)
    local whole = format and #marker >= 32
    if whole and format == FORMAT and state > DEAD and STATE[state] then
      gone[#gone + 1], forgotten = keys[i], forgotten + 1
    elseif whole and format > FORMAT then
      later[#later + 1], later[#later + 2] = now + 10000, names[i]
      blocked = blocked + 1
    elseif find(names[i], '^shift:') then
      gone[#gone + 1] = keys[i]
    elseif find(names[i], '^h:%d+$') then
      local again = trim_history(string.sub(names[i], 3))
      if again then later[#later + 1], later[#later + 2] = string.format('%.0f', again), names[i] end
    end
  end
  if gone[1] then call('UNLINK', unpack(gone)) end
  if later[1] then call('ZADD', base .. 'markers', unpack(later)) end
  if #names > #later / 2 then call('ZREMRANGEBYRANK', base .. 'markers', '0', #names - #later / 2 - 1) end
  rearm('markers', call('ZRANGE', base .. 'markers', '0', '0', 'WITHSCORES')[2])
end

local HANDLED = { leases = lease_over, expiries = expire }

must_be('hash', 'stats')
local most = 0
for i = 2, #indexes, 2 do most = most + indexes[i] end
gens(most)
for i = 1, #indexes, 2 do
  local index, n = indexes[i], indexes[i + 1]
  if index == 'markers' then
    pump_markers(n)
  elseif index == 'ends' then
    pump_ends(n)
  elseif HANDLED[index] then
    pump_index(index, n, HANDLED[index], index == 'leases' and cut_leases)
  else
    block(index)
  end
end
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
