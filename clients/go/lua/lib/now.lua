-- The only clock: this Redis's, read once per script.
local now_us, now
do
  local t = redis.call('TIME')
  now_us = t[1] * 1000000 + t[2]
  now = (now_us - now_us % 1000) / 1000
end
