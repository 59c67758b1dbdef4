#!lua flags=allow-oom
-- cancel_group: keeps the messages of a group from being delivered, in steps.
--
-- MOVES    DELAYED | READY -> cancelled; LEASED keeps its lease and is not tried again
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, group, cursor (0 at first, then what the last step answered), limit (1 to 500)
-- RETURNS  next cursor ("" when through), cancelled, leased, failed
-- COST     O(log n) a message; what is leased stays in the group, so the cursor counts over it
--# include now, shard, arguments, topic, alarm, envelope, bucket, stale, finish, cancel

arguments('cancel_group', 4)
local group = 'g:' .. ARGV[2]
local cursor, limit = number('the cursor', ARGV[3], 0, LAST_MS), number('the limit', ARGV[4], 1, MOST_IDS)
must_be('zset', group)
must_be('hash', 'stats')
must_be('zset', 'markers')
local names = redis.call('ZRANGE', base .. group, cursor, cursor + limit - 1)
local tally = { cancelled = 0, leased = 0, failed = 0 }
for _, name in ipairs(names) do
  local no, id = string.match(name, '^(%d+):(.*)$')
  local ok, word = pcall(cancel, no, id)
  if not ok or string.sub(word, 1, 6) == 'failed' then
    word = 'failed'
  elseif word ~= 'leased' then
    -- What is over, dead or unknown has no place in the index.
    redis.call('ZREM', base .. group, name)
  end
  tally[word] = (tally[word] or 0) + 1
end
trim_ready()
wake_timer()
local passed = tally.leased + tally.failed
return { #names == limit and tostring(cursor + passed) or '', tally.cancelled, tally.leased, tally.failed }
