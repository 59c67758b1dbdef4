-- Makes Redis store the most used hashes and sets as tables. Small ones are lists, which each command scans from the
-- start (up to 512 fields, or 128 members), unless an element exceeded 64 bytes: then the key becomes a table, and
-- remains one after the element's removal, until Redis restarts. Nothing depends on this, and leftovers of an
-- interruption disappear the next time.
do
  local long = string.rep('-', 65)
  for _, key in ipairs({ KEYS[1], base .. 'stats' }) do
    redis.pcall('HSET', key, long, '')
    redis.pcall('HDEL', key, long)
  end
  redis.pcall('ZADD', base .. 'alarms', LAST_MS, long)
  redis.pcall('ZREM', base .. 'alarms', long)
end
