#!lua flags=allow-oom
-- shift_group: moves the due times of a group's messages, of all topics or of one, by the same difference, in steps, each
-- message once.
--
-- MOVES    DELAYED -> DELAYED | READY; READY -> DELAYED | READY; others are unchanged
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, group, topic ("" for all), token (chosen by the caller; a repeat for the same topic under the same token
--          continues), difference in ms (not 0), limit (1 to 500)
-- RETURNS  more | done | busy (a shift with another token is in progress), moved in this step, skipped
-- COST     O(log n) a message of the group in all topics. The cursor is in `shift:<group>` until an hour after the last step
--# include now, limits, arguments, names, delay, registry, shard, topic, durability, defaults, policy, stats, nearest, alarm, gen, format, fields, envelope, hour, bucket, stale, ready, fair, push, note, ends, turn, finish, place, expiry, reschedule, page

arguments('shift_group', 6)
local group, only = ARGV[2], ARGV[3] ~= '' and (topic_no(ARGV[3]) or 'none')
local token = only and ARGV[4] .. '\n' .. ARGV[3] or ARGV[4]
if not is_printable(group, 128) then refuse('a group is 1 to 128 bytes of printable text, not ' .. readable(group)) end
local by, limit = number('the difference in ms', ARGV[5], -LAST_MS, LAST_MS), number('the limit', ARGV[6], 1, MOST_IDS)
if by == 0 then refuse('the difference must not be 0') end
local index, cursor = 'g:' .. group, 'shift:' .. group
must_wait_for_all()
local known, at, last, over = unpack(redis.call('HMGET', base .. cursor, 'token', 'at', 'last', 'over'))
if known == token and over then return { 'done', 0, 0 } end
if known and known ~= token and not over then return { 'busy', 0, 0 } end
if known ~= token then at, last = nil, nil end

-- From the far end, so that moved messages are not met again: the latest first for a growing due time.
local page = page_behind(base .. index, at or (by > 0 and '+inf' or '-inf'), last or '', limit, by > 0)
gens(limit)
-- The cursor's end comes before the cursor, since a cursor without an end would exclude all other shifts, and before the moves:
-- nothing may fail between these and the cursor, or a repeat would move the page twice.
alarm('markers', now + 3600000)
redis.call('ZADD', base .. 'markers', now + 3600000, cursor)
local moved, passed = 0, 0

-- Moves a message that is pending, and may be due then; returns true if moved.
local function shift(m, due)
  if not m or m.state ~= PENDING or not in_range(due) then return false end
  local expires = expiry_at(m, due)
  if expires and expires <= due then return false end
  move_to(m, due)
  return true
end

for i = 1, #page, 2 do
  last, at = page[i], page[i + 1]
  local no, id = string.match(page[i], '^(%d+):(.*)$')
  if not only or no == only then
    local m = no and read(no, id)
    local ok, is_moved = pcall(shift, m, m and m.due + by)
    if ok and is_moved then
      moved = moved + 1
    else
      passed = passed + 1
    end
  end
end
local done = #page < 2 * limit
redis.call('HSET', base .. cursor, 'token', token)
if at then redis.call('HSET', base .. cursor, 'at', at, 'last', last) else redis.call('HDEL', base .. cursor, 'at', 'last') end
if done then redis.call('HSET', base .. cursor, 'over', 1) else redis.call('HDEL', base .. cursor, 'over') end
trim_ready()
--# include wake
if events then
--# include record
end
return { done and 'done' or 'more', moved, passed }
