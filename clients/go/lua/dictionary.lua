#!lua
-- dictionary: stores or reads a compression dictionary. Dictionaries are in shard 0, and never change.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, dictionary id (0 to 2^32 - 1), bytes ("" to read)
-- RETURNS  the bytes, or "" if missing
-- COST     O(1)
--# include registry, shard, limits, arguments

arguments('dictionary', 3)
number('the dictionary id', ARGV[2], 0, 4294967295)
if ARGV[3] ~= '' then redis.call('HSETNX', base .. 'dictionaries', ARGV[2], ARGV[3]) end
return redis.call('HGET', base .. 'dictionaries', ARGV[2]) or ''
