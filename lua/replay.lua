#!lua
-- replay: gives dead letters another life, with their attempts counted from the start.
--
-- MOVES    DEAD -> READY, or -> DELAYED after a delay
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, delay ms, then 1 a message (1 to 500): id
-- RETURNS  one answer a message: ready <due ms> | delayed <due ms> | not dead <state> | unknown | failed <why>
-- COST     O(log n) a message, n = dead letters of its topic
--# include now, arguments, due, shard, topic, alarm, gen, envelope, bucket, ready, finish, place, each

arguments('replay', 3, 1)
local no, delay = topic_no(ARGV[2]), number('the delay in ms', ARGV[3], 0, LAST_MS - now)
must_be('hash', 'stats')
if no then
  must_be('zset', 'd:' .. no)
end
gens(#ARGV)

local function replay(id)
  local m, why = read(no, id)
  if not m then return why == 'missing' and 'unknown' or 'failed ' .. why end
  if m.state ~= DEAD then return 'not dead ' .. state_of(m) end
  place_check(m, now + delay)
  redis.call('ZREM', base .. 'd:' .. no, id .. gen_bytes(m.gen))
  if bit.band(m.flags, REASON) > 0 then
    local reason = struct.unpack('>I2', m.env, #m.env - 1)
    redis.call('SET', base .. 'm:' .. no .. ':' .. id, string.sub(m.env, 1, -3 - reason))
    m.flags = m.flags - REASON
  end
  m.flags = bit.band(m.flags, bit.bnot(DOOMED))
  m.attempt = 0
  local word = place(m, now + delay)
  local _, expires = fields(m.env, m.flags)
  if expires then
    redis.call('ZADD', base .. 'expiries', expires, no .. ':' .. id)
    alarm('expiries', expires)
  end
  return string.format('%s %.0f', word, m.due)
end

local answers = each(4, 1, function(id) return no and replay(id) or 'unknown' end)
placed()
wake_timer()
return answers
