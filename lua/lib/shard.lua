-- Opens the shard: `base` begins every key. Refuses a missing shard, and a caller with another layout, before any
-- write. All scripts write constant numbers as text in commands: Redis would format each number again, for a third of a
-- µs.
local base = string.sub(KEYS[1], 1, -5)
if registry.err then return registry end
if not layout then
  return redis.error_reply('DQUNINITIALISED ' .. KEYS[1] .. ' does not exist')
end
-- The caller's wait after the call, in words after the layout: see `durability.lua`.
local waits = ''
if layout ~= ARGV[1] then
  local known, words = string.match(tostring(ARGV[1]), '^(%S+) (.+)$')
  known = known or tostring(ARGV[1])
  -- A shard without a recorded node accepts calls for any node: processes learn the names before the shards do.
  if known ~= layout and string.match(known, '^(%d+)@') ~= layout then
    -- Includes the shard counts, which save the caller a second call, and the deployment's identity.
    local counts, shards, identity = unpack(redis.call('HMGET', KEYS[1], 'counts', 'shards', 'identity'))
    return redis.error_reply('DQLAYOUT ' .. layout .. ' ' .. (counts or shards or '?') .. ' ' .. (identity or '-') .. ' is the layout of '
      .. KEYS[1] .. ', not ' .. known)
  end
  if words then
    waits = words
    -- WAIT counts from the connection's last write: this write covers calls without changes, such as repeats.
    redis.call('HSET', KEYS[1], 'layout', layout)
  end
end
