-- The durability required by the shard's topics.

-- Records the strongest requirement, for `must_wait_for_all`.
local function note_durabilities()
  local all, replicas, cursor = {}, 0, '0'
  local function look(_, no)
    local asked = redis.pcall('HGET', base .. 't:' .. no, 'durability')
    if type(asked) ~= 'string' then return end
    if asked == 'disk' then all[1] = asked end
    replicas = math.max(replicas, tonumber(string.match(asked, '^replica:(%d)$')) or 0)
  end
  repeat cursor = topics_page(cursor, 500, look) until cursor == '0'
  if replicas > 0 then all[#all + 1] = 'replica:' .. replicas end
  if #all > 0 then
    redis.call('HSET', KEYS[1], 'durabilities', table.concat(all, ' '))
  else
    redis.call('HDEL', KEYS[1], 'durabilities')
  end
end
