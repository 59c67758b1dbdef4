#!lua flags=allow-oom
-- swap: replaces a note of the operations that gateways share, if it still has the expected version.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, name, expected version (0: no such note), text ("": deletes the note)
-- RETURNS  swapped | kept, now_us, version (0 for no note), text of the note
-- COST     O(1)
--# include now, registry, shard, limits, arguments

arguments('swap', 4)
local expected = number('the expected version', ARGV[3], 0, LAST_MS - 1)
local key, name = base .. 'operations', ARGV[2]
local version, text = string.match(redis.call('HGET', key, name) or '', '^(%d+) (.*)$')
version = tonumber(version or 0)
if version ~= expected then return { 'kept', now_us, version, text or '' } end
if ARGV[4] == '' then
  redis.call('HDEL', key, name)
  return { 'swapped', now_us, 0, '' }
end
redis.call('HSET', key, name, string.format('%.0f %s', version + 1, ARGV[4]))
return { 'swapped', now_us, version + 1, ARGV[4] }
