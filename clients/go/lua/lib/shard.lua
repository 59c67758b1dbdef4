-- Opens the shard: `base` begins every key. Refuses a shard that was never
-- created and a caller that knows another layout, before anything is written.
-- In all scripts, numbers that are known stand as text in commands: Redis would print each again, for a third of a µs.
local base = string.sub(KEYS[1], 1, -5)
if registry.err then return redis.error_reply('DQTYPE ' .. KEYS[1] .. ' is not a hash') end
if not layout then
  return redis.error_reply('DQUNINITIALISED ' .. KEYS[1] .. ' does not exist')
end
-- What the caller waits for behind the call, in words behind the layout: see `durability.lua`.
local waits = ''
if layout ~= ARGV[1] then
  local known, words = string.match(tostring(ARGV[1]), '^(%S+) (.+)$')
  known = known or tostring(ARGV[1])
  -- A shard that records no node yet takes calls for any: processes learn the names before the shards do.
  if known ~= layout and string.match(known, '^(%d+)@') ~= layout then
    -- With the shard counts, so that the caller needs no second call to follow.
    local counts, shards = unpack(redis.call('HMGET', KEYS[1], 'counts', 'shards'))
    return redis.error_reply('DQLAYOUT ' .. layout .. ' ' .. (counts or shards or '?') .. ' is the layout of '
      .. KEYS[1] .. ', not ' .. known)
  end
  if words then
    waits = words
    -- WAIT counts from the connection's last write: what changes nothing, such as a repeat, is waited for as well.
    redis.call('HSET', KEYS[1], 'layout', layout)
  end
end
