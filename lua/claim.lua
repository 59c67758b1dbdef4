#!lua flags=allow-oom
-- claim: makes the caller the shard's owner, under a new epoch. Older epochs pump no more.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, owner, lock ms (0: who owns is settled elsewhere; else the claim is refused while another
--          owner's lock lasts, and a claim of the owner itself renews its lock under the same epoch)
-- RETURNS  claimed | renewed | owned, epoch, now_us, owner, next due ms ("" for none)
-- COST     O(1)
--# include now, shard, arguments

arguments('claim', 3)
local lock = tonumber(ARGV[3])
local owner, until_ms = unpack(redis.call('HMGET', KEYS[1], 'owner', 'owner_until'))
local locked = (tonumber(until_ms) or 0) > now
local head = redis.call('ZRANGE', base .. 'alarms', 0, 0, 'WITHSCORES')[2] or ''
if lock > 0 and locked and owner ~= ARGV[2] then
  return { 'owned', epoch, now_us, owner, head }
end
redis.call('HSET', KEYS[1], 'owner', ARGV[2], 'owner_until', lock > 0 and now + lock or 0)
if lock > 0 and locked and owner == ARGV[2] then
  return { 'renewed', epoch, now_us, owner, head }
end
-- Gens that a lost master gave out may be given out again: stay clear of them.
redis.call('HINCRBY', KEYS[1], 'gen', 2097152)
return { 'claimed', redis.call('HINCRBY', KEYS[1], 'epoch', 1), now_us, ARGV[2], head }
