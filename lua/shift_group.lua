#!lua flags=allow-oom
-- shift_group: moves the due times of a whole group by the same difference, in steps, each message once.
--
-- MOVES    DELAYED -> DELAYED | READY; READY -> DELAYED | READY; others stay as they are
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, group, token (of the caller's choice; a repeat under the same token goes on where it was),
--          difference in ms (not 0), limit (1 to 500)
-- RETURNS  more | done | busy (another token is at work on this group), moved in this step, passed over
-- COST     O(log n) a message. The cursor stands in `shift:<group>` and is forgotten an hour after the last step
--# include now, arguments, due, shard, topic, alarm, gen, envelope, bucket, stale, ready, finish, place, reschedule

arguments('shift_group', 5)
local group, token = ARGV[2], ARGV[3]
local by, limit = number('the difference in ms', ARGV[4], -LAST_MS, LAST_MS), number('the limit', ARGV[5], 1, MOST_IDS)
if by == 0 then refuse('the difference must not be 0') end
local index, cursor = 'g:' .. group, 'shift:' .. group
must_be('zset', index)
must_be('hash', cursor)
must_be('hash', 'stats')
must_be('zset', 'markers')
local known, at, skip, over = unpack(redis.call('HMGET', base .. cursor, 'token', 'at', 'skip', 'over'))
if known == token and over then return { 'done', 0, 0 } end
if known and known ~= token and not over then return { 'busy', 0, 0 } end
if known ~= token then at, skip = nil, nil end

-- From the far end, so that what was moved is not met again: the latest first where times grow.
local order, from, to = 'ZRANGEBYSCORE', at or '-inf', '+inf'
if by > 0 then order, from, to = 'ZREVRANGEBYSCORE', at or '+inf', '-inf' end
skip = tonumber(skip) or 0
local page = redis.call(order, base .. index, from, to, 'WITHSCORES', 'LIMIT', skip, limit)
gens(limit)
local moved, passed, score = 0, 0, at

local function check(m, due)
  local expires = expiry_at(m, due)
  if expires and expires <= due then error('it would have expired') end
  place_check(m, due)
end

-- Whether the message is pending, and may be due then.
local function fits(m, due)
  return m and m.state == PENDING and in_range(due) and pcall(check, m, due)
end

for i = 1, #page, 2 do
  if page[i + 1] ~= score then score, skip = page[i + 1], 0 end
  local no, id = string.match(page[i], '^(%d+):(.*)$')
  local m = no and read(no, id)
  local due = m and m.due + by
  if fits(m, due) then
    move_to(m, due)
    moved = moved + 1
  else
    passed, skip = passed + 1, skip + 1
  end
end
local done = #page < 2 * limit
redis.call('HSET', base .. cursor, 'token', token, 'at', score or '', 'skip', skip)
if done then redis.call('HSET', base .. cursor, 'over', 1) else redis.call('HDEL', base .. cursor, 'over') end
if not score then redis.call('HDEL', base .. cursor, 'at') end
redis.call('ZADD', base .. 'markers', now + 3600000, cursor)
alarm('markers', now + 3600000)
trim_ready()
placed()
wake_timer()
return { done and 'done' or 'more', moved, passed }
