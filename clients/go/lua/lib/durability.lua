-- Durability: a topic may ask that its writes are answered only once replicas or a disk have them. The caller waits for that, and
-- says so; one who does not is refused by name, before anything is written.
local agreed = {}

local function must_wait(no, topic)
  if not no or agreed[no] then return end
  agreed[no] = true
  local asked = redis.pcall('HGET', base .. 't:' .. no, 'durability')
  if type(asked) ~= 'string' or asked == 'memory' then return end
  if string.find(' ' .. waits .. ' ', ' ' .. asked .. ' ', 1, true) then return end
  error({ err = 'DQDURABILITY ' .. asked .. ' is asked for by ' .. (topic or 'topic number ' .. no)
    .. ': wait for it behind the call, and say so behind the layout' })
end
