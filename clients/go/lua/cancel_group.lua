#!lua flags=allow-oom
-- cancel_group: cancels the messages of a group, in steps.
--
-- MOVES    DELAYED | READY -> cancelled; LEASED keeps its lease without a further attempt
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, group, due ms of the last visited message (0 at first, then as the last step answered),
--          name of that message ("" at first, then as the last step answered), limit (1 to 500)
-- RETURNS  due ms and name for the next step (both "" at the end), cancelled, leased, failed
-- COST     O(log n) a message, n = messages of the group; leased messages stay in the group
--# include now, registry, shard, type, limits, arguments, durability, defaults, policy, stats, nearest, alarm, format, fields, envelope, hour, bucket, stale, note, ends, finish, cancel, page

arguments('cancel_group', 5)
local group = 'g:' .. ARGV[2]
number('the due time', ARGV[3], 0, LAST_MS)
local limit = number('the limit', ARGV[5], 1, MOST_IDS)
must_be('zset', group)
must_be('hash', 'stats')
must_be('zset', 'ends')
must_wait_for_all()
local page = page_behind(base .. group, ARGV[3], ARGV[4], limit)
local tally = { cancelled = 0, leased = 0, failed = 0 }
for i = 1, #page, 2 do
  local name = page[i]
  local no, id = string.match(name, '^(%d+):(.*)$')
  local ok, word = pcall(cancel, no, id)
  if not ok or string.sub(word, 1, 6) == 'failed' then
    word = 'failed'
  elseif word ~= 'leased' then
    -- A finished, dead or unknown message does not belong in the index.
    redis.call('ZREM', base .. group, name)
  end
  tally[word] = (tally[word] or 0) + 1
end
trim_ready()
--# include wake
if events then
--# include record
end
local through = #page < 2 * limit
return { through and '' or page[#page], through and '' or page[#page - 1], tally.cancelled, tally.leased, tally.failed }
