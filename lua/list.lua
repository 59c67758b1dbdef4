#!lua flags=no-writes
-- list: shows messages of one topic in one state, by page.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, delayed | ready | leased | dead, from ms, to ms (both inclusive; delayed: due time,
--          dead: time of death, leased: lease end; without meaning for ready), asc | desc (desc: dead only),
--          offset within `from` (0 at first), limit (1 to 500)
-- RETURNS  now_us, next from ms ("" when through), next offset, then 2 a message: id, envelope
-- COST     O(log n) and a read of the envelope a message; ready: offset + page, by whole list nodes
--# include now, shard, arguments, topic, alarm, envelope, bucket, look

arguments('list', 8)
local no, state = topic_no(ARGV[2]), one_of('the state', ARGV[3], { 'delayed', 'ready', 'leased', 'dead' })
local from, to = number('from', ARGV[4], 0, LAST_MS), number('to', ARGV[5], 0, LAST_MS)
local order = one_of('the order', ARGV[6], { 'asc', 'desc' })
local offset, limit = number('the offset', ARGV[7], 0, LAST_MS), number('the limit', ARGV[8], 1, MOST_IDS)
local answer = { now_us, '', 0 }
if not no then return answer end

local function ms(n) return string.format('%.0f', n) end

-- Passes over what was shown of the time `from`. Where that has gone meanwhile, nothing behind it is passed over.
local function start_at(index)
  if offset > 0 then offset = math.min(offset, redis.call('ZCOUNT', base .. index, ARGV[4], ARGV[4])) end
end

-- Shows the message of an id‖gen, unless it has gone on to another state or another gen.
local function show(member, wanted)
  local id = string.sub(member, 1, -5)
  local env, g, found = shown(no, id)
  if env and (not g or found == wanted and gen_bytes(g) == string.sub(member, -4)) then
    answer[#answer + 1], answer[#answer + 2] = id, env
  end
end

-- Shows a page of an index of member, score, …; `own` finds the id‖gen in a member. The next page begins at the
-- last score, behind as many as were shown of it.
local function show_page(page, wanted, own)
  local last, same = from, offset
  for i = 1, #page, 2 do
    local score = tonumber(page[i + 1])
    if score == last then same = same + 1 else last, same = score, 1 end
    local member = page[i]
    if own then member = own(member) end
    if member then show(member, wanted) end
  end
  if #page > 0 then answer[2], answer[3] = ms(last), same end
  return #page
end

if state == 'delayed' then
  local _, bucket, go_on = bucket_page(no, from, to, 1)
  if bucket then
    start_at(bucket)
    local page = redis.call('ZRANGEBYSCORE', base .. bucket, from, to, 'WITHSCORES', 'LIMIT', offset, limit)
    if show_page(page, PENDING) < 2 * limit then
      local start = string.match(bucket, ':(%d+)$') * HOUR_MS
      answer[2], answer[3] = start + HOUR_MS <= to and ms(start + HOUR_MS) or '', 0
    end
  elseif go_on then
    answer[2] = ms(math.max(go_on, from + 1))
  end
elseif state == 'ready' then
  local entries = redis.call('LRANGE', base .. 'r:' .. no, offset, offset + limit - 1)
  for _, entry in ipairs(entries) do show(string.sub(entry, 1, -8), READY) end
  if #entries == limit then answer[2], answer[3] = ms(from), offset + limit end
elseif state == 'leased' then
  start_at('leases')
  local page = redis.call('ZRANGEBYSCORE', base .. 'leases', from, to, 'WITHSCORES', 'LIMIT', offset, limit)
  local found = show_page(page, LEASED, function(receipt)
    if string.sub(receipt, 1, #no + 1) == no .. ':' then return string.sub(receipt, #no + 2) end
  end)
  if found < 2 * limit then answer[2], answer[3] = '', 0 end
else
  local command, low, high = 'ZRANGEBYSCORE', from, to
  if order == 'desc' then command = 'ZREVRANGEBYSCORE' end
  start_at('d:' .. no)
  local page = redis.call(command, base .. 'd:' .. no, low, high, 'WITHSCORES', 'LIMIT', offset, limit)
  if show_page(page, DEAD) < 2 * limit then answer[2], answer[3] = '', 0 end
end
return answer
