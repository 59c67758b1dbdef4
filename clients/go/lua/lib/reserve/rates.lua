-- reserve/rates: the rates of groups. `v:<no>` has the time in µs when the bucket of a group is empty, as `tat` has that of a topic
-- (see `allowance.lua`), and `y:<no>` the groups that wait for their next token, and its time.
--
-- NEEDS    base, come_back, give_turn, now_us, wanted
-- GIVES    await_token, await_tokens, charge, give_tokens, pace, set_pace, spend, tokens_of

-- µs between two messages of a group, nil without a rate; when the buckets at hand are empty, and which are to be written.
local pace, empty_us, spent
local UNITS = { s = 1000000, m = 60000000, h = 3600000000 }

local function set_pace(rate)
  local messages, unit = string.match(rate or '', '^(%d+)/([smh])$')
  pace = messages and math.ceil(UNITS[unit] / messages)
  empty_us, spent = {}, {}
end

-- Number of messages for which the group has tokens: the burst is that of a topic.
local function tokens_of(no, group)
  if not pace then return math.huge end
  local stored = tonumber(redis.call('ZSCORE', base .. 'v:' .. no, group) or '') or 0
  empty_us[group] = math.max(stored, now_us)
  return math.floor((now_us + math.max(pace, 100000) - empty_us[group]) / pace)
end

local function spend(group)
  if not empty_us[group] then return end
  empty_us[group] = empty_us[group] + pace
  spent[group] = true
end

-- Writes what was spent.
local function charge(no)
  for group in pairs(spent) do redis.call('ZADD', base .. 'v:' .. no, empty_us[group], group) end
  spent = {}
end

-- Notes when a group without room has its next token, if the group has none: call before the group loses its turn.
local function await_token(no, group)
  local at = empty_us[group] and empty_us[group] + pace - math.max(pace, 100000)
  if at and at > now_us then redis.call('ZADD', base .. 'y:' .. no, at, group) end
end

-- Gives turns to groups that have a token again, and forgets full buckets. The clock may have read ahead: then no bucket holds
-- more, and no token takes longer than `pace`.
local function give_tokens(no)
  local waiting, most = base .. 'y:' .. no, wanted + 100
  for _, range in ipairs({ { '-inf', now_us }, { string.format('(%.0f', now_us + pace), '+inf' } }) do
    local groups = redis.call('ZRANGE', waiting, range[1], range[2], 'BYSCORE', 'LIMIT', '0', most)
    for _, group in ipairs(groups) do
      give_turn(no, group)
      redis.call('ZREM', waiting, group)
    end
    if #groups == most then come_back(0) end
  end
  local buckets, latest = base .. 'v:' .. no, now_us + math.max(pace, 100000)
  local full = redis.call('ZRANGE', buckets, '-inf', now_us, 'BYSCORE', 'LIMIT', '0', most)
  if full[1] then redis.call('ZREM', buckets, unpack(full)) end
  local ahead = redis.call('ZRANGE', buckets, string.format('(%.0f', latest), '+inf', 'BYSCORE', 'LIMIT', '0', most)
  for _, group in ipairs(ahead) do redis.call('ZADD', buckets, latest, group) end
end

-- Returns when the next group has a token.
local function await_tokens(no)
  local at = redis.call('ZRANGE', base .. 'y:' .. no, '0', '0', 'WITHSCORES')[2]
  if at then come_back(math.max(math.ceil((at - now_us) / 1000), 0)) end
end
