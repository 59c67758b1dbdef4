#!lua flags=allow-oom
-- probe: tries commands of the scripts on a key that does not exist before or after.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout (any), then 1 a command (1 to 500): name in capitals; commands unused by scripts are skipped
-- RETURNS  the commands that this user may not call
-- COST     O(1)
--# include limits, arguments

arguments('probe', 1, 1)
local key = string.sub(KEYS[1], 1, -5) .. 'probe'
local denied = {}

-- Denied commands fill the ACL log: only requested commands are tried.
local wanted = {}
for i = 2, #ARGV do wanted[ARGV[i]] = true end

-- How a script learns of a denial: from Redis 7.0, and from Redis 7.2 and Valkey.
local denials = { 'NOPERM', 'user executing the script', 'ACL failure in script' }

local function is_denial(said)
  for _, denial in ipairs(denials) do
    if string.find(said, denial, 1, true) then return true end
  end
  return false
end

local function try(command, ...)
  if not wanted[command] then return end
  local ok, fault = pcall(redis.call, command, ...)
  local said = type(fault) == 'table' and fault.err or tostring(fault)
  if not ok and is_denial(said) then denied[#denied + 1] = command end
end

try('TIME')
try('UNLINK', key)
try('TYPE', key)
try('EXISTS', key)
try('MGET', key)
try('GETRANGE', key, 0, 0)
try('MSET', key, 'x')
try('SET', key, 'x')
try('SETRANGE', key, 0, 'x')
try('GETEX', key, 'PX', 60000)
try('UNLINK', key)
try('HSET', key, 'n', 1)
try('HINCRBY', key, 'n', 1)
try('HGET', key, 'n')
try('HMGET', key, 'n')
try('HGETALL', key)
try('HSCAN', key, 0)
try('HSETNX', key, 'n', 1)
try('HDEL', key, 'n')
try('UNLINK', key)
try('RPUSH', key, 'x')
try('LPUSH', key, 'x')
try('RPUSHX', key, 'x')
try('LRANGE', key, 0, 0)
try('LLEN', key)
try('LTRIM', key, 1, -1)
try('UNLINK', key)
try('ZADD', key, 1, 'x')
try('ZCARD', key)
try('ZCOUNT', key, 0, 1)
try('ZSCORE', key, 'x')
try('ZMSCORE', key, 'x')
try('ZRANGE', key, 0, 0)
try('ZRANGEBYSCORE', key, 0, 1)
try('ZUNIONSTORE', key, 1, key)
try('ZREM', key, 'y')
try('ZREMRANGEBYRANK', key, 0, 0)
try('UNLINK', key)
try('XADD', key, '*', 'n', 1)
try('XTRIM', key, 'MINID', 0)
try('XRANGE', key, '-', '+', 'COUNT', 1)
try('XREVRANGE', key, '+', '-', 'COUNT', 1)
try('UNLINK', key)
try('SPUBLISH', key, '')
return denied
