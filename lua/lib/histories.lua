-- Which topics of the shard keep a history.

-- Notes whether any does: scripts that read no policy of a topic need not look then.
local function note_histories()
  local any, cursor = false, '0'
  local function look(_, no)
    local kept = redis.pcall('HGET', base .. 't:' .. no, 'history')
    -- One that cannot be read may have one.
    any = any or kept and kept ~= '0'
  end
  repeat cursor = topics_page(cursor, 500, look) until any or cursor == '0'
  if any then redis.call('HSET', KEYS[1], 'history', '1') else redis.call('HDEL', KEYS[1], 'history') end
end

-- Takes the history of a topic away.
local function drop_history(no)
  redis.call('UNLINK', base .. 'h:' .. no)
  if redis.pcall('ZREM', base .. 'markers', 'h:' .. no) == 1 and redis.call('EXISTS', base .. 'markers') == 0 then
    redis.call('ZREM', base .. 'alarms', 'markers')
  end
end
