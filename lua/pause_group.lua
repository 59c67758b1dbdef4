#!lua flags=allow-oom
-- pause_group: stops groups of a topic from being reserved in one shard, or resumes them. A reserve parks the ready messages of
-- a paused group.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, pause | resume, then 1 a group (1 to 500): name
-- RETURNS  number of groups that were not paused, or not resumed, before
-- COST     O(log n) a group, n = paused groups of the topic, or its groups with parked messages
--# include now, limits, arguments, registry, shard, names, topic, topic_new, format, fields, turn

arguments('pause_group', 3, 1)
local pauses = one_of('what to do', ARGV[3], { 'pause', 'resume' }) == 'pause'
for i = 4, #ARGV do
  if not is_printable(ARGV[i], 128) then refuse('no name of a group: ' .. ARGV[i]) end
end
local no, is_new = topic_no(ARGV[2]), false
if not no then
  if not pauses then return { 0 } end
  no, is_new = topic_number(ARGV[2])
end
local paused, changed = base .. 'q:' .. no, 0
if is_new then topic_open(ARGV[2], no) end
-- The marks first: they make a reserve look for pauses.
if pauses then redis.call('HSET', base .. 't:' .. no, 'grouped', '1', 'paused_groups', '1') end
for i = 4, #ARGV do
  if pauses then
    changed = changed + redis.call('ZADD', paused, 'NX', now, ARGV[i])
  else
    -- The turn first: a turn too many is dropped, a missing one would leave the parked messages where they are.
    give_turn(no, ARGV[i])
    changed = changed + redis.call('ZREM', paused, ARGV[i])
  end
end
if redis.call('EXISTS', paused) == 0 then redis.call('HDEL', base .. 't:' .. no, 'paused_groups') end
return { changed }
