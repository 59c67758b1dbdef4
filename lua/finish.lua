#!lua flags=allow-oom
-- finish: ends messages by id in any state, for callers that hold no receipt.
--
-- MOVES    DELAYED | READY -> cancelled; LEASED -> delivered (its lease ends); DEAD -> purged
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, any | dead, then 1 a message (1 to 500): id
-- RETURNS  one answer a message: cancelled | delivered | purged | kept <state> (only a dead letter was to end) |
--          finished <outcome> <ms> | unknown | failed <why>
-- COST     O(log n) a message, n = messages of its topic due in its hour
--# include now, registry, shard, limits, arguments, topic, durability, defaults, policy, stats, nearest, alarm, format, fields, envelope, hour, bucket, stale, note, ends, turn, finish, flight, each

arguments('finish', 3, 1)
local no, only = topic_no(ARGV[2]), one_of('which', ARGV[3], { 'any', 'dead' })
must_wait(no, ARGV[2])

local function end_by_id(id)
  local m, why = read(no, id)
  if not m then return why == 'missing' and 'unknown' or 'failed ' .. why end
  if m.state > DEAD then return string.format('finished %s %.0f', STATE[m.state], m.at) end
  if only == 'dead' and m.state ~= DEAD then return 'kept ' .. state_of(m) end
  if m.state == PENDING then
    finish(m, 'cancelled')
    unplace(m)
    return 'cancelled'
  end
  local member = id .. gen_bytes(m.gen)
  if m.state == DEAD then
    finish(m, 'purged')
    redis.pcall('ZREM', base .. 'd:' .. no, member)
    return 'purged'
  end
  turn_after(m)
  finish(m, 'delivered')
  if redis.call('ZREM', base .. 'leases', no .. ':' .. member) == 1 then count('leased', no, -1) end
  land(m, no .. ':' .. member)
  return 'delivered'
end

local answers = each(4, 1, function(id) return no and end_by_id(id) or 'unknown' end)
trim_ready()
--# include wake
if events then
--# include record
end
return answers
