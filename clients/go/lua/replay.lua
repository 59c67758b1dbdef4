#!lua
-- replay: makes dead letters ready again, with attempts counted from the start.
--
-- MOVES    DEAD -> READY, or -> DELAYED after a delay
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, delay ms, then 1 a message (1 to 500): id
-- RETURNS  one answer a message: ready <due ms> | delayed <due ms> | refused <why> (the message would have expired by
--          then, and stays dead) | not dead <state> | unknown | failed <why>
-- COST     O(log n) a message, n = dead letters of its topic
--# include now, limits, arguments, registry, shard, type, topic, defaults, policy, stats, nearest, alarm, gen, format, fields, envelope, hour, bucket, ready, push, note, ends, finish, place, expiry, each

arguments('replay', 3, 1)
local no, delay = topic_no(ARGV[2]), number('the delay in ms', ARGV[3], 0, LAST_MS - now)
must_be('hash', 'stats')
if no then
  must_be('zset', 'd:' .. no)
  must_be('hash', 'w:' .. no)
end
gens(#ARGV)

local function replay(id)
  local m, why = read(no, id)
  if not m then return why == 'missing' and 'unknown' or 'failed ' .. why end
  if m.state ~= DEAD then return 'not dead ' .. state_of(m) end
  local due = now + delay
  local expires = expiry_at(m, due)
  if expires and expires <= due then return 'refused expiry not after the due time' end
  place_check(m, due)
  local dead = id .. gen_bytes(m.gen)
  redis.call('HDEL', base .. 'w:' .. no, id)
  m.flags, m.attempt = bit.band(m.flags, bit.bnot(DOOMED)), 0
  if expires then set_expiry(m, expires) end
  local word = place(m, due)
  redis.call('ZREM', base .. 'd:' .. no, dead)
  note(no, id, 'replayed %.0f %s', due, word)
  return string.format('%s %.0f', word, due)
end

local answers = each(4, 1, function(id) return no and replay(id) or 'unknown' end)
--# include wake
if events then
--# include record
end
return answers
