#!lua flags=allow-oom
-- claim: makes the caller the shard's owner, under a new epoch. Older epochs cannot pump. Refuses an owner of another
-- deployment's shards (DQDEPLOYMENT <identity of the shard's>). An owner whose name begins with `worker/` yields to
-- timers: its lock refuses workers only, and its claim is refused while a timer without a lock owns the shard, unless
-- that timer has not pumped the shard for 5 s or more since such a claim found something overdue by 5 s.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, owner (as an id, of up to 256 bytes), lock ms (0 to an hour; 0: another authority decides the
--          owner; else the claim is refused while another owner's lock lasts, and a claim of the owner renews the lock
--          under the same epoch) or `orphaned` (granted without a lock if no owner has pumped the shard for 5 s or more
--          since another timer found something overdue by 10 s) or `free` (of the owner: its claim is over, and the
--          channel `wake` says `free`),
--          identity of the owner's deployment ("": unknown)
-- RETURNS  claimed | renewed | owned | free, epoch, now_us, owner, next due ms ("" for none), and of `owned` the ms
--          until the lock ends ("" for none)
-- COST     O(1)
--# include now, registry, shard, limits, arguments, names

arguments('claim', 4)
if not is_printable(ARGV[2], 256) then refuse('the owner must be 1 to 256 bytes of printable text, not ' .. readable(ARGV[2])) end
local function yields(name) return string.sub(name, 1, 7) == 'worker/' end
local is_worker, if_orphaned, gives_back = yields(ARGV[2]), ARGV[3] == 'orphaned', ARGV[3] == 'free'
if is_worker and if_orphaned then refuse('a worker claims with a lock, not orphaned') end
local lock = (if_orphaned or gives_back) and 0 or number('the lock in ms', ARGV[3], is_worker and 1 or 0, 3600000)
local owner, until_ms, orphaned, identity =
  unpack(redis.call('HMGET', KEYS[1], 'owner', 'owner_until', 'orphaned', 'identity'))
if identity and ARGV[4] ~= '' and ARGV[4] ~= identity then
  return redis.error_reply('DQDEPLOYMENT ' .. identity .. ' is the deployment of ' .. KEYS[1] .. ', not ' .. readable(ARGV[4]))
end
-- A lock lasts at most five minutes from now, or the caller's own lock time: a lock taken while the clock read ahead
-- must not exclude other owners for longer.
until_ms = tonumber(until_ms) or 0
local locked = until_ms > now and until_ms <= now + math.max(lock, 300000)
local is_owner, is_timers = owner == ARGV[2], owner and not yields(owner)
local head = redis.call('ZRANGE', base .. 'alarms', 0, 0, 'WITHSCORES')[2] or ''
local since = tonumber(orphaned) or LAST_MS
local is_pumped = now < since + 5000

if gives_back and is_owner then
  redis.call('HSET', KEYS[1], 'owner_until', '1')
  redis.call('SPUBLISH', base .. 'wake', 'free')
  return { 'free', epoch, now_us, owner, head }
end
local is_kept = gives_back or if_orphaned and is_pumped
if not is_owner and locked and (lock > 0 or if_orphaned) then is_kept = is_kept or is_worker or is_timers end
if is_worker and is_timers and until_ms == 0 and is_pumped then
  is_kept = true
  if head ~= '' and tonumber(head) + 5000 <= now and now < since then
    redis.call('HSET', KEYS[1], 'orphaned', string.format('%.0f', now))
  end
end
if is_kept then return { 'owned', epoch, now_us, owner or '', head, locked and until_ms - now or '' } end

redis.call('HSET', KEYS[1], 'owner', ARGV[2], 'owner_until', lock > 0 and now + lock or 0)
if lock > 0 and locked and is_owner then
  return { 'renewed', epoch, now_us, owner, head }
end
if orphaned then redis.call('HDEL', KEYS[1], 'orphaned') end
redis.call('HINCRBY', KEYS[1], 'gen', SKIPPED_GENS)
return { 'claimed', redis.call('HINCRBY', KEYS[1], 'epoch', 1), now_us, ARGV[2], head }
