#!lua flags=allow-oom
-- cancel_group: cancels the messages of a group, of all topics or of one, in steps.
--
-- MOVES    DELAYED | READY -> cancelled; LEASED keeps its lease without a further attempt
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, group, topic ("" for all), due ms of the last visited message (0 at first, then as the last step
--          answered), name of that message ("" at first, then as the last step answered), limit (1 to 500)
-- RETURNS  due ms and name for the next step (both "" at the end), cancelled, leased, failed
-- COST     O(log n) a message, n = messages of the group in all topics; leased messages stay in the group
--# include now, registry, shard, limits, arguments, topic, durability, defaults, policy, stats, nearest, alarm, format, fields, envelope, hour, bucket, stale, note, ends, turn, finish, cancel, page

arguments('cancel_group', 6)
local group, only = 'g:' .. ARGV[2], ARGV[3] ~= '' and (topic_no(ARGV[3]) or 'none')
number('the due time', ARGV[4], 0, LAST_MS)
local limit = number('the limit', ARGV[6], 1, MOST_IDS)
must_wait_for_all()
local page = page_behind(base .. group, ARGV[4], ARGV[5], limit)
local tally = { cancelled = 0, leased = 0, failed = 0 }
for i = 1, #page, 2 do
  local name = page[i]
  local no, id = string.match(name, '^(%d+):(.*)$')
  if not only or no == only then
    local ok, word = pcall(cancel, no, id)
    if not ok or string.sub(word, 1, 6) == 'failed' then
      word = 'failed'
    elseif word ~= 'leased' then
      -- A finished, dead or unknown message does not belong in the index.
      redis.call('ZREM', base .. group, name)
    end
    tally[word] = (tally[word] or 0) + 1
  end
end
trim_ready()
--# include wake
if events then
--# include record
end
local through = #page < 2 * limit
return { through and '' or page[#page], through and '' or page[#page - 1], tally.cancelled, tally.leased, tally.failed }
