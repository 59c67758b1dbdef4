#!lua flags=allow-oom
-- claim: makes the caller the shard's owner, under a new epoch. Older epochs cannot pump. Refuses an owner of another
-- deployment's shards (DQDEPLOYMENT <identity of the shard's>).
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, owner (as an id, of up to 256 bytes), lock ms (0 to an hour; 0: another authority decides the
--          owner; else the claim is refused while another owner's lock lasts, and a claim of the owner renews the lock
--          under the same epoch) or `orphaned` (granted without a lock if no owner has pumped the shard for 5 s or more
--          since another timer found something overdue by 10 s),
--          identity of the owner's deployment ("": unknown)
-- RETURNS  claimed | renewed | owned, epoch, now_us, owner, next due ms ("" for none)
-- COST     O(1)
--# include now, registry, shard, type, limits, arguments, names

arguments('claim', 4)
if not is_printable(ARGV[2], 256) then refuse('the owner must be 1 to 256 bytes of printable text, not ' .. readable(ARGV[2])) end
local if_orphaned = ARGV[3] == 'orphaned'
local lock = if_orphaned and 0 or number('the lock in ms', ARGV[3], 0, 3600000)
local owner, until_ms, orphaned, identity =
  unpack(redis.call('HMGET', KEYS[1], 'owner', 'owner_until', 'orphaned', 'identity'))
if identity and ARGV[4] ~= '' and ARGV[4] ~= identity then
  return redis.error_reply('DQDEPLOYMENT ' .. identity .. ' is the deployment of ' .. KEYS[1] .. ', not ' .. readable(ARGV[4]))
end
-- A lock lasts at most five minutes from now, or the caller's own lock time: a lock taken while the clock read ahead
-- must not exclude other owners for longer.
until_ms = tonumber(until_ms) or 0
local locked = until_ms > now and until_ms <= now + math.max(lock, 300000)
local head = redis.call('ZRANGE', base .. 'alarms', 0, 0, 'WITHSCORES')[2] or ''
local is_pumped = if_orphaned and now < (tonumber(orphaned) or LAST_MS) + 5000
if is_pumped or (lock > 0 or if_orphaned) and locked and owner ~= ARGV[2] then
  return { 'owned', epoch, now_us, owner or '', head }
end
redis.call('HSET', KEYS[1], 'owner', ARGV[2], 'owner_until', lock > 0 and now + lock or 0)
if lock > 0 and locked and owner == ARGV[2] then
  return { 'renewed', epoch, now_us, owner, head }
end
if orphaned then redis.call('HDEL', KEYS[1], 'orphaned') end
-- Gens handed out by a lost master may be handed out again: skip them.
redis.call('HINCRBY', KEYS[1], 'gen', 2097152)
return { 'claimed', redis.call('HINCRBY', KEYS[1], 'epoch', 1), now_us, ARGV[2], head }
