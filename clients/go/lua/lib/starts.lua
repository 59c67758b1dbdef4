-- The starts of many messages. One command reads them whole, which is faster unless a topic has large messages.
local large = {}

-- True if a topic has messages of more than LARGE_BYTES, as recorded by `put`.
local function is_large(no)
  if large[no] == nil then large[no] = redis.pcall('HGET', base .. 't:' .. no, 'large') ~= false end
  return large[no]
end

-- The start of each key's value; false without one.
local function starts_of(keys, any_large)
  if not any_large then return redis.call('MGET', unpack(keys)) end
  local starts = {}
  for i, key in ipairs(keys) do starts[i] = start_of(key) end
  return starts
end
