-- The shard's topics with a history.

-- Records whether any topic keeps a history, so that scripts without a need for policies can skip the check.
local function note_histories()
  local any, cursor = false, '0'
  local function look(_, no)
    local kept = redis.pcall('HGET', base .. 't:' .. no, 'history')
    -- An unreadable topic may have a history.
    any = any or kept and kept ~= '0'
  end
  repeat cursor = topics_page(cursor, 500, look) until any or cursor == '0'
  if any then redis.call('HSET', KEYS[1], 'history', '1') else redis.call('HDEL', KEYS[1], 'history') end
end

-- Deletes the history of a topic.
local function drop_history(no)
  redis.call('UNLINK', base .. 'h:' .. no)
  if redis.pcall('ZREM', base .. 'markers', 'h:' .. no) == 1 and redis.call('EXISTS', base .. 'markers') == 0 then
    redis.call('ZREM', base .. 'alarms', 'markers')
  end
end
