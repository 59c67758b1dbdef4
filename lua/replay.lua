#!lua
-- replay: makes dead letters ready again, with attempts counted from the start.
--
-- MOVES    DEAD -> READY, or -> DELAYED after a delay
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, delay ms (behind a space: new maximum attempts, 1 to 65535, and behind another the ms to a new
--          expiry, 0: none), then 1 a message (1 to 500): id
-- RETURNS  one answer a message: ready <due ms> | delayed <due ms> | refused <why> (the message would have expired by
--          then, and stays dead) | not dead <state> | unknown | failed <why>
-- COST     O(log n) a message, n = dead letters of its topic
--# include now, limits, arguments, registry, shard, topic, defaults, policy, stats, nearest, alarm, gen, format, fields, envelope, hour, bucket, ready, fair, push, note, ends, turn, finish, place, expiry, revive, each

arguments('replay', 3, 1)
local delay_text, attempts, lives = string.match(ARGV[3], '^(%S+) (%d+) (%d+)$')
local no, delay = topic_no(ARGV[2]), number('the delay in ms', delay_text or ARGV[3], 0, LAST_MS - now)
if attempts then
  attempts = number('the maximum attempts', attempts, 1, 65535)
  lives = number('the ms to the expiry', lives, 0, LAST_MS - now)
end
gens(#ARGV)

-- Writes an expiry of its own into the body of `m`, which may have had none.
local function renew_expiry(m, expires)
  local key, before = base .. 'm:' .. no .. ':' .. m.id, bit.band(m.flags, HASH) > 0 and 40 or 32
  local had = bit.band(m.flags, EXPIRES) > 0
  m.flags = bit.bor(bit.band(m.flags, bit.bnot(RELATIVE)), EXPIRES)
  local bytes, env = struct.pack('>I8', expires), had and m.env or whole_of(no, m.id)
  m.env = string.sub(env, 1, before) .. bytes .. string.sub(env, before + (had and 9 or 1))
  if had then
    write_head(m)
    redis.call('SETRANGE', key, before, bytes)
  else
    redis.call('SET', key, head_of(m) .. string.sub(m.env, 33))
  end
end

local function renew(m, expires)
  m.max = attempts
  if expires then renew_expiry(m, expires) end
end

local function replay(id)
  local m, why = read(no, id)
  if not m then return why == 'missing' and 'unknown' or 'failed ' .. why end
  if m.state ~= DEAD then return 'not dead ' .. state_of(m) end
  local due = now + delay
  local expires = expiry_at(m, due)
  if attempts then expires = lives > 0 and now + lives or expires and LAST_MS or nil end
  if expires and expires <= due then return 'refused expiry not after the due time' end
  return revive(m, due, expires, attempts and renew)
end

local answers = each(4, 1, function(id) return no and replay(id) or 'unknown' end)
--# include wake
if events then
--# include record
end
return answers
