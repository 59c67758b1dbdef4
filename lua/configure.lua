#!lua flags=allow-oom
-- configure: sets the policy of a topic in one shard.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, then 2 a setting: field, value ("" for the default). Fields: max_attempts (0: no
--          bound), lease_ms, backoff (see lib/retry.lua), expire_after_ms (0: never), remember_cancelled_ms,
--          remember_own_ms, remember_generated_ms, repeats (deliver | refuse: of a put whose end may be
--          forgotten), paused (1), rate (messages a second, of this shard), codec (none | zstd |
--          zstd:<dictionary id>)
-- RETURNS  every field that is set, and its value, as field, value, …
-- COST     O(1)
--# include shard, arguments, topic

arguments('configure', 2, 2)
local no = topic_open(ARGV[2])
local key = base .. 't:' .. no
local allowed = { max_attempts = true, lease_ms = true, backoff = true, expire_after_ms = true,
  remember_cancelled_ms = true, remember_own_ms = true, remember_generated_ms = true, repeats = true, paused = true,
  rate = true, codec = true }

-- Whether a value can be what the field asks for.
local function fits(field, value)
  if value == '' or field == 'codec' then return true end
  if not value then return false end
  if field == 'backoff' then return #value > 1 and (#value - 1) % 4 == 0 and string.byte(value) <= 3 end
  if field == 'repeats' then return value == 'deliver' or value == 'refuse' end
  if field == 'rate' then return string.match(value, '^[%d.]+$') and (tonumber(value) or 0) > 0 end
  local most = field == 'max_attempts' and 65535 or 9007199254740991
  return string.match(value, '^%d+$') and tonumber(value) <= most
end

for i = 3, #ARGV, 2 do
  if not allowed[ARGV[i]] then return redis.error_reply('DQARG no such setting: ' .. ARGV[i]) end
  if not fits(ARGV[i], ARGV[i + 1]) then
    return redis.error_reply('DQARG ' .. ARGV[i] .. ' cannot be ' .. tostring(ARGV[i + 1]))
  end
end
for i = 3, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', key, ARGV[i])
  else
    redis.call('HSET', key, ARGV[i], ARGV[i + 1])
  end
end
-- Whoever waits may be let go now.
redis.call('SPUBLISH', base .. 'ready', ARGV[2])
return redis.call('HGETALL', key)
