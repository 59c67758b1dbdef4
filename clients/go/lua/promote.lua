#!lua flags=allow-oom
-- promote: makes delayed messages of a topic or a group ready now, the earliest due first, in steps.
--
-- MOVES    DELAYED (due after now, and in the range) -> READY; DELAYED (in a held shard) -> DELAYED
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic ("" for all topics of the group), group ("" for all messages of the topic), from ms, to ms (both
--          inclusive), end of the last step ("" at first), limit (1 to 500)
-- RETURNS  more | done, promoted, kept (a later format, or a key of the wrong type), from ms and end of this step, for
--          the next step. An interrupted promotion can simply be repeated
-- COST     O(log n) a message, n = messages due in its hour; of a group, also those of its other topics
--# include now, limits, arguments, names, registry, shard, topic, defaults, policy, stats, nearest, alarm, gen, format, fields, envelope, hour, bucket, stale, ready, fair, push, note, ends, turn, finish, place, expiry, reschedule, look, page

arguments('promote', 7)
local topic, group = ARGV[2], ARGV[3]
local from, to = number('from', ARGV[4], 0, LAST_MS), number('to', ARGV[5], 0, LAST_MS)
local last, limit = ARGV[6], number('the limit', ARGV[7], 1, MOST_IDS)
if group == '' and topic == '' then refuse('promote takes a topic, a group or both') end
if group ~= '' and not is_printable(group, 128) then
  refuse('a group is 1 to 128 bytes of printable text, not ' .. readable(group))
end
local only = topic ~= '' and topic_no(topic)
if topic ~= '' and not only then return { 'done', 0, 0, ARGV[4], '' } end
-- The pump moves what is due by now. A promoted message is due now: no later step meets it again.
if from <= now then from, last = now + 1, '' end
local start = string.format('%.0f', from)
gens(limit)
local promoted, kept = 0, 0
local word, next_from, ended_at = 'done', start, ''

-- Promotes one message, if it is delayed; in a bucket, unless its entry is stale.
local function promote_one(no, id, entry_gen)
  local m, why = read(no, id)
  if not m and why ~= 'missing' then error(why) end
  if not m or m.state ~= PENDING or not is_delayed(m) or entry_gen and gen_bytes(m.gen) ~= entry_gen then return end
  move_to(m, now)
  promoted = promoted + 1
end

-- Promotes a page of an index, whose members `split` takes apart. Returns true at the end of the index.
local function promote_page(index, split)
  local page = page_behind(base .. index, start, last, limit)
  for i = 1, #page, 2 do
    if tonumber(page[i + 1]) > to then return false end
    local no, id, entry_gen = split(page[i])
    if no and (not only or no == only) and not pcall(promote_one, no, id, entry_gen) then kept = kept + 1 end
  end
  if #page < 2 * limit then return true end
  word, next_from, ended_at = 'more', page[#page], page[#page - 1]
  return false
end

if group ~= '' then
  promote_page('g:' .. group, function(member) return string.match(member, '^(%d+):(.*)$') end)
else
  local _, bucket, go_on = bucket_page(only, from, to, 1)
  local function of_bucket(member) return only, string.sub(member, 1, -5), string.sub(member, -4) end
  if bucket and promote_page(bucket, of_bucket) then go_on = (string.match(bucket, ':(%d+)$') + 1) * HOUR_MS end
  if go_on and go_on <= to then word, next_from = 'more', string.format('%.0f', go_on) end
end
trim_ready()
--# include wake
if events then
--# include record
end
return { word, promoted, kept, next_from, ended_at }
