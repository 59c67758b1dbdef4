-- What the shard's registry says, for `shard.lua`. A script that needs more of it, or less, reads it by itself.
local registry = redis.pcall('HMGET', KEYS[1], 'layout', 'hold', 'epoch', 'history')
local layout, held, epoch = registry[1], registry[2], tonumber(registry[3]) or 0
-- Whether any topic keeps a history, and what goes into it.
local any_history, events = registry[4], nil
