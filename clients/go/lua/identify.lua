#!lua flags=allow-oom
-- identify: the identity of the shard's deployment, which tells it from every other. Gives the shard one if it has none. A
-- repeat changes nothing.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, identity (32 hexadecimal digits in lower case; empty: only reads)
-- RETURNS  the shard's identity; "" for none
-- COST     O(1)
--# include registry, shard, limits, arguments

arguments('identify', 2)
local given = ARGV[2]
if given ~= '' and (#given ~= 32 or string.find(given, '[^0-9a-f]')) then
  refuse('the identity must be 32 hexadecimal digits in lower case, not ' .. string.sub(given, 1, 500))
end
local known = redis.call('HGET', KEYS[1], 'identity')
if known then return known end
if given ~= '' then redis.call('HSET', KEYS[1], 'identity', given) end
return given
