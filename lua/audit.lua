#!lua flags=no-writes
-- audit: checks a page of a shard's messages, and counts them by state.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, then 1 a message (1 to 500): body key without its base ("m:<topic no>:<id>", as SCAN found it)
-- RETURNS  delayed, ready, leased, dead, finished, then 2 a finding: kind, name
--            kind  ready (in no bucket: the caller checks the queue; the name ends in its gen) |
--                  no_lease | no_dead_entry | no_marker_entry | no_group_entry | no_expiry_entry (a missing
--                  entry) | malformed | wrong_type
--            name  <topic no>:<id>
-- COST     O(log n) and a read of the envelope a message
--# include now, limits, arguments, registry, shard, defaults, stats, nearest, alarm, format, fields, envelope, starts, hour, bucket, fault

arguments('audit', 1, 1)
local answer = { 0, 0, 0, 0, 0 }

local function found(kind, name) answer[#answer + 1], answer[#answer + 2] = kind, name end

-- A message with a later format is left to a script that can read it.
local function unread(key, name, why)
  if why == 'malformed' then found('malformed', name) end
  if why == 'missing' and redis.call('EXISTS', base .. key) == 1 then found('wrong_type', name) end
end

local function check(m)
  local state = math.min(m.state, 5)
  if m.state == PENDING and not is_delayed(m) then
    state = READY
    found('ready', receipt_of(m))
  end
  answer[state] = answer[state] + 1
  for _, kind in ipairs(faults_of(m)) do found(kind, name_of(m)) end
end

-- Most messages are delayed without another index: their buckets are queried together. `hours` has each topic's buckets
-- by hour, `delayed` has all buckets; each has its members, and the argument index of each message.
local hours, delayed = {}, {}

local function check_later(no, member, due, at)
  local own = hours[no]
  if not own then
    own = {}
    hours[no] = own
  end
  local hour = (due - due % HOUR_MS) / HOUR_MS
  local bucket = own[hour]
  if not bucket then
    bucket = { key = bucket_of(no, due), members = {}, at = {} }
    own[hour], delayed[#delayed + 1] = bucket, bucket
  end
  local n = #bucket.members + 1
  bucket.members[n], bucket.at[n] = member, at
end

-- Format, state and flags of a pending message without another index.
local PLAIN = struct.pack('>BB', FORMAT, PENDING)

local keys, any_large, topic = {}, false, nil
for i = 2, #ARGV do
  keys[i - 1] = base .. ARGV[i]
  if not any_large and not (topic and string.find(ARGV[i], topic, 1, true) == 1) then
    topic = string.match(ARGV[i], '^m:%d+:') or 'm::'
    any_large = is_large(string.sub(topic, 3, -2))
  end
end
for i, env in ipairs(starts_of(keys, any_large)) do
  local key = ARGV[i + 1]
  local colon = string.find(key, ':', 3, true) or 2
  local no, id = string.sub(key, 3, colon - 1), string.sub(key, colon + 1)
  if env and #env >= 32 and string.sub(env, 1, 2) == PLAIN and bit.band(string.byte(env, 4), INDEXED) == 0 then
    check_later(no, id .. string.sub(env, 5, 8), struct.unpack('>I8', env, 9), i + 1)
  else
    local m, why = decode(no, id, env)
    if m then check(m) else unread(key, string.sub(key, 3), why) end
  end
end
for _, bucket in ipairs(delayed) do
  local scores = redis.pcall('ZMSCORE', base .. bucket.key, unpack(bucket.members))
  for n, member in ipairs(bucket.members) do
    local state = scores[n] and 1 or READY
    answer[state] = answer[state] + 1
    if state == READY then found('ready', string.sub(ARGV[bucket.at[n]], 3) .. string.sub(member, -4)) end
  end
end
return answer
