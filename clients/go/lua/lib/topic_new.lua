-- Numbers of new topics.

-- The number of a topic, and false; or the number to be assigned by `topic_open`, and true.
local function topic_number(name)
  local no = topic_no(name)
  if no then return no, false end
  if #name > 128 or not string.find(name, '^[%w._/-]+$') then
    error({ err = 'DQARG a topic is 1 to 128 ASCII letters, digits and . _ - /, not "' .. readable(name) .. '"' })
  end
  no = string.format('%.0f', (tonumber(redis.call('HGET', KEYS[1], 'topics')) or 0) + 1)
  return no, true
end

-- Assigns a topic's number on first use. Call once nothing can be refused any more.
local function topic_open(name, no)
  redis.call('HSET', base .. 't:' .. no, 'name', name)
  redis.call('HSET', KEYS[1], 'topics', no, 'topic:' .. name, no)
end
