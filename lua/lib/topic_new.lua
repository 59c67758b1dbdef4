-- Giving topics their numbers.

-- The number of a topic, and false; or the one that it will have, and true: `topic_open` gives it out.
local function topic_number(name)
  local no = topic_no(name)
  if no then return no, false end
  if #name > 128 or not string.find(name, '^[%w._/-]+$') then
    error({ err = 'DQARG a topic is 1 to 128 ASCII letters, digits and . _ - /, not "' .. readable(name) .. '"' })
  end
  no = string.format('%.0f', (tonumber(redis.call('HGET', KEYS[1], 'topics')) or 0) + 1)
  must_be('hash', 't:' .. no)
  return no, true
end

-- Gives a topic its number, at its first use. To be called once nothing is refused any more.
local function topic_open(name, no)
  redis.call('HSET', base .. 't:' .. no, 'name', name)
  redis.call('HSET', KEYS[1], 'topics', no, 'topic:' .. name, no)
end
