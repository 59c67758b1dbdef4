-- Opens the shard: `base` begins every key, `meta` is what its registry says. Refuses a shard that was never
-- created and a caller that knows another layout, before anything is written.
-- In all scripts, numbers that are known stand as text in commands: Redis would print each anew, for a third of a µs.
local base = string.sub(KEYS[1], 1, -5)
local registry = redis.pcall('HMGET', KEYS[1], 'layout', 'hold', 'epoch')
if registry.err then return redis.error_reply('DQTYPE ' .. KEYS[1] .. ' is not a hash') end
local layout, held, epoch = registry[1], registry[2], tonumber(registry[3]) or 0
if not layout then
  return redis.error_reply('DQUNINITIALISED ' .. KEYS[1] .. ' does not exist')
end
if layout ~= ARGV[1] then
  -- With the shard counts, so that the caller needs no second call to follow.
  local counts, shards = unpack(redis.call('HMGET', KEYS[1], 'counts', 'shards'))
  return redis.error_reply('DQLAYOUT ' .. layout .. ' ' .. (counts or shards or '?') .. ' is the layout of '
    .. KEYS[1] .. ', not ' .. tostring(ARGV[1]))
end

-- Refuses the whole call, before its first write, where a key holds another type than it must (F1: an error
-- in the middle would keep the writes before it).
local checked = {}
local function is(kind, key)
  if checked[key] then return true end
  local found = redis.call('TYPE', base .. key).ok
  checked[key] = found == kind or found == 'none'
  return checked[key], found
end

local function must_be(kind, key)
  local right, found = is(kind, key)
  if not right then error({ err = 'DQTYPE ' .. base .. key .. ' is a ' .. found .. ', not a ' .. kind }) end
end
