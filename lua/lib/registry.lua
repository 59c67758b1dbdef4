-- The registry fields for `shard.lua`. Scripts with other needs read the registry themselves.
local registry = redis.pcall('HMGET', KEYS[1], 'layout', 'hold', 'epoch', 'history', 'fair')
local layout, held, epoch = registry[1], registry[2], tonumber(registry[3]) or 0
-- Whether any topic keeps a history, and the events to record.
local any_history, events = registry[4], nil
-- Whether any topic hands out its groups in turn.
local any_fair = registry[5]
