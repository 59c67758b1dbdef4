-- Has Redis keep what most calls look into as tables. Few fields or members are a list, through which each command goes from
-- its start (up to 512 fields, or 128 members), unless one had more than 64 bytes: then it is a table, and stays one when that
-- is gone, until Redis is started again. Nothing depends on it, and what a cut leaves behind is gone the next time.
do
  local long = string.rep('-', 65)
  for _, key in ipairs({ KEYS[1], base .. 'stats' }) do
    redis.pcall('HSET', key, long, '')
    redis.pcall('HDEL', key, long)
  end
  redis.pcall('ZADD', base .. 'alarms', LAST_MS, long)
  redis.pcall('ZREM', base .. 'alarms', long)
end
