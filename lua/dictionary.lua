#!lua
-- dictionary: keeps a compression dictionary, or finds one. They live in shard 0, and are never changed.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, dictionary id (0 to 2^32 - 1), its bytes ("" to find it)
-- RETURNS  its bytes, or "" where there is none
-- COST     O(1)
--# include registry, shard, type, limits, arguments

arguments('dictionary', 3)
number('the dictionary id', ARGV[2], 0, 4294967295)
must_be('hash', 'dictionaries')
if ARGV[3] ~= '' then redis.call('HSETNX', base .. 'dictionaries', ARGV[2], ARGV[3]) end
return redis.call('HGET', base .. 'dictionaries', ARGV[2]) or ''
