#!lua flags=no-writes
-- list: shows messages of one topic in one state, by page.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, delayed | ready | leased | dead, from ms, to ms (both inclusive; delayed: due time,
--          dead: time of death, leased: lease end; ignored for ready), asc | desc (desc: dead only, from the
--          later time to the earlier), end of the last page ("" at first), limit (1 to 500)
-- RETURNS  now_us, from ms and end of this page for the next page (both "" at the end), then 2 a message: id, envelope
-- COST     O(log n) and a read of the envelope a message; a page ends at 512 KiB of envelopes
--# include now, registry, shard, limits, arguments, topic, stats, nearest, alarm, format, envelope, fields, hour, bucket, look, shown, page, parked

arguments('list', 8)
local no, state = topic_no(ARGV[2]), one_of('the state', ARGV[3], { 'delayed', 'ready', 'leased', 'dead' })
local from, to = number('from', ARGV[4], 0, LAST_MS), number('to', ARGV[5], 0, LAST_MS)
local downwards = one_of('the order', ARGV[6], { 'asc', 'desc' }) == 'desc'
local last, limit = ARGV[7], number('the limit', ARGV[8], 1, MOST_IDS)
if downwards and state ~= 'dead' then refuse('only dead letters can be listed from the newest') end
local answer = { now_us, '', '' }
if not no then return answer end

local bytes = 0

-- Shows the message of an id‖gen, unless it has moved to another state or gen.
local function show(member, wanted)
  local id = string.sub(member, 1, -5)
  local env, g, found = shown(no, id)
  if env and (not g or found == wanted and gen_bytes(g) == string.sub(member, -4)) then
    answer[#answer + 1], answer[#answer + 2], bytes = id, env, bytes + #env
  end
end

-- Shows a page of an index; `own` finds the id‖gen in a member. Returns true if there may be more.
local function show_page(index, wanted, own)
  local page = page_behind(base .. index, ARGV[4], last, limit, downwards)
  for i = 1, #page, 2 do
    local score = tonumber(page[i + 1])
    if downwards and score < to or not downwards and score > to then return false end
    local member = page[i]
    if own then member = own(member) end
    if member then show(member, wanted) end
    if i == 2 * limit - 1 or bytes >= MOST_PAGE_BYTES then
      answer[2], answer[3] = page[i + 1], page[i]
      return true
    end
  end
  return false
end

if state == 'delayed' then
  local _, bucket, go_on = bucket_page(no, from, to, 1)
  if bucket and not show_page(bucket, PENDING) then go_on = (string.match(bucket, ':(%d+)$') + 1) * HOUR_MS end
  if go_on and go_on <= to then answer[2] = string.format('%.0f', go_on) end
elseif state == 'ready' then
  local queue, from_place, since, group = queue_at(no, last)
  local entries, place, left, next_cursor = queue_behind(base .. queue, from_place, limit)
  for i, entry in ipairs(entries) do
    show(string.sub(entry, 1, -8), READY)
    next_cursor = left > i and queue_cursor(place + i - 1, left - i, entry) or nil
    if bytes >= MOST_PAGE_BYTES then break end
  end
  if next_cursor and group ~= '' then next_cursor = parked_place(since, group, next_cursor) end
  if not next_cursor then
    group, since = next_parked(no, since, group)
    if group then next_cursor = parked_place(since, group, '') end
  end
  if next_cursor then answer[2], answer[3] = ARGV[4], next_cursor end
elseif state == 'leased' then
  show_page('leases', LEASED, function(receipt)
    if string.sub(receipt, 1, #no + 1) == no .. ':' then return string.sub(receipt, #no + 2) end
  end)
else
  show_page('d:' .. no, DEAD)
end
return answer
