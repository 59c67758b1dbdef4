-- Finding empty topics, and removing topics from the shard.
local COUNTERS = { 'accepted', 'delivered', 'cancelled', 'expired', 'purged', 'replaced', 'ready', 'leased', 'buried' }
-- Hours per command, and commands per topic.
local HOURS_A_STEP, MAX_STEPS = 500, 100
-- Steps taken by the call, at most about 0.2 ms each unless the shard is far behind.
local steps = 0

local function counters_of(no)
  local names = {}
  for i, name in ipairs(COUNTERS) do names[i] = name .. ':' .. no end
  return names
end

-- The topic's counters, as numbers.
local function books_of(no)
  local n = redis.call('HMGET', base .. 'stats', unpack(counters_of(no)))
  for i = 1, #COUNTERS do n[i] = tonumber(n[i]) or 0 end
  return n
end

-- True if, by the books, all accepted messages are finished.
local function is_balanced(n) return n[7] == 0 and n[8] == 0 and n[1] == n[2] + n[3] + n[4] + n[5] + n[6] end

-- Messages that the topic's buckets hold, or may hold.
local function delayed(no)
  local alarms, prefix, soon = base .. 'alarms', 'b:' .. no .. ':', now + 10000
  steps = steps + 1
  -- Blocked work returns within ten seconds: a bucket's alarm is then later than its hour.
  local late = redis.call('ZRANGEBYSCORE', alarms, '-inf', soon, 'LIMIT', 0, 5000)
  for _, member in ipairs(late) do
    if string.sub(member, 1, #prefix) == prefix and redis.call('EXISTS', base .. member) == 1 then
      return 'delayed messages'
    end
  end
  if #late == 5000 then return 'too many alarms that are due' end
  local from = soon
  for _ = 1, MAX_STEPS do
    local head = redis.call('ZRANGEBYSCORE', alarms, string.format('%.0f', from), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    if not head then return nil end
    local hour, buckets = math.floor(tonumber(head) / HOUR_MS), {}
    for i = 1, HOURS_A_STEP do buckets[i] = base .. prefix .. string.format('%.0f', hour + i - 1) end
    steps = steps + 1
    if redis.call('EXISTS', unpack(buckets)) > 0 then return 'delayed messages' end
    from = (hour + HOURS_A_STEP) * HOUR_MS
  end
  return 'alarms of too many hours to look at'
end

-- The topic's possible contents; nil if empty. Checks both books and places: an interrupted script may have left either
-- behind, and a forgotten topic's message would be stuck.
local function holds(no)
  local n = books_of(no)
  if redis.call('EXISTS', base .. 'r:' .. no) == 1 then return 'a ready queue' end
  if redis.call('EXISTS', base .. 'k:' .. no) == 1 then return 'parked messages' end
  if redis.call('EXISTS', base .. 'd:' .. no) == 1 then return 'dead letters' end
  if n[8] ~= 0 then return 'leased messages' end
  return delayed(no) or not is_balanced(n) and 'books that do not balance' or nil
end

-- Removes a topic from the shard. The counters go together, so the books balance without them. The name goes first: a
-- topic that can still be found has everything that a put needs.
local function forget_topic(name, no)
  redis.call('HDEL', base .. 'stats', unpack(counters_of(no)))
  redis.call('HDEL', KEYS[1], 'topic:' .. name)
  drop_history(no)
  redis.call('UNLINK', base .. 't:' .. no, base .. 'w:' .. no, base .. 'n:' .. no, base .. 'q:' .. no, base .. 'x:' .. no,
    base .. 'v:' .. no, base .. 'y:' .. no)
end
