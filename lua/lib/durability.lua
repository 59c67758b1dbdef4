-- Durability: a topic may require that its writes are answered only after replicas or a disk have them. The caller
-- waits, and declares the wait; a call without the declaration is refused by name, before any write.
local function must_say(asked, topic)
  if string.find(' ' .. waits .. ' ', ' ' .. asked .. ' ', 1, true) then return end
  error({ err = 'DQDURABILITY ' .. asked .. ' is asked for by ' .. topic
    .. ': wait for it behind the call, and say so behind the layout' })
end

local function must_wait(no, topic)
  local asked = no and redis.pcall('HGET', base .. 't:' .. no, 'durability')
  if type(asked) == 'string' and asked ~= 'memory' then must_say(asked, topic) end
end

-- For calls on messages of any topic: requires the strongest durability of all, so that a repeat without remaining work
-- is confirmed as well.
local function must_wait_for_all()
  for asked in string.gmatch(redis.call('HGET', KEYS[1], 'durabilities') or '', '%S+') do
    must_say(asked, 'a topic of the shard')
  end
end
