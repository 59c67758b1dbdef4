-- The shard's topics with a history, and those in fair order.

local function note_any(field, is_any)
  if is_any then redis.call('HSET', KEYS[1], field, '1') else redis.call('HDEL', KEYS[1], field) end
end

-- Records whether any topic keeps a history, and whether any is in fair order, so that scripts without a need for policies can
-- skip the checks.
local function note_topics()
  local kept, fair, cursor = false, false, '0'
  local function look(_, no)
    local terms = redis.pcall('HMGET', base .. 't:' .. no, 'history', 'group_order')
    -- An unreadable topic may have a history.
    kept = kept or terms.err or terms[1] and terms[1] ~= '0'
    fair = fair or terms[2] == 'fair'
  end
  repeat cursor = topics_page(cursor, 500, look) until kept and fair or cursor == '0'
  note_any('history', kept)
  note_any('fair', fair)
end

-- Deletes the history of a topic.
local function drop_history(no)
  redis.call('UNLINK', base .. 'h:' .. no)
  if redis.pcall('ZREM', base .. 'markers', 'h:' .. no) == 1 and redis.call('EXISTS', base .. 'markers') == 0 then
    redis.call('ZREM', base .. 'alarms', 'markers')
  end
end
