-- Turns: a topic that limits its groups parks the messages of a group without room in `p:<no>:<group>`. `k:<no>` has the groups
-- with parked messages, `f:<no>:<group>` the receipts of a group in flight, and `n:<no>` the groups whose turn has come: `reserve`
-- looks at these alone, in the order of their scores: the time, in µs. `q:<no>` has the paused groups, and `x:<no>` the failed messages that block a group.

-- The score of a turn behind all others, wherever the clock is.
local function next_turn(no)
  local score = redis.call('ZRANGE', base .. 'n:' .. no, '-1', '-1', 'WITHSCORES')[2]
  return math.max(now_us, (score or 0) + 1)
end

-- Gives a group a turn if it has parked messages, and wakes waiting consumers.
local function give_turn(no, group)
  if redis.call('ZSCORE', base .. 'k:' .. no, group) and redis.call('ZADD', base .. 'n:' .. no, 'NX', next_turn(no), group) == 1 then
    local name = redis.pcall('HGET', base .. 't:' .. no, 'name')
    redis.call('SPUBLISH', base .. 'ready', type(name) == 'string' and name or '')
  end
end

-- Gives a turn to the group that `m` blocks, and returns the group; nil without. Call before `m` ends or loses the flag, for the
-- reason of `turn_after`.
local function turn_behind(m)
  if bit.band(m.flags, BLOCKS) == 0 then return nil end
  local group = group_and_expiry(m)
  if group then give_turn(m.no, group) end
  return group
end

-- Ends the block of a group by `m`. Call last: an entry of a message without the flag blocks nothing.
local function unblock(m, group)
  if group then redis.pcall('ZREM', base .. 'x:' .. m.no, group .. '\31' .. m.id) end
end
