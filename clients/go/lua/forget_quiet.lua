#!lua flags=allow-oom
-- forget_quiet: forgets the unused topics of a page: empty topics without settings and without a put for long.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, start of the page (0 at first, then as the last call answered), ms of quiet (1 to 2^52: since the
--          topic was first seen empty, with no put since; at least the longest memory of finished ids)
-- RETURNS  start of the next page (0: the first again; the same page if one call could not forget all), then the name
--          of each forgotten topic
-- COST     O(1) a topic, about 50 a call; as `forget` for each forgotten topic, about 10 a call
--# include now, registry, shard, nearest, alarm, limits, arguments, cursor, defaults, policy, format, fields, hour, topics, histories, empty

arguments('forget_quiet', 3)
local cursor = topics_cursor(ARGV[2])
local quiet_ms = number('the quiet time in ms', ARGV[3], 1, LONGEST_SPAN_MS)
-- A held shard's clock is not trusted.
if held then return { cursor } end
local A_PAGE, STEPS_A_CALL = 50, 20
local forgotten, is_spent = {}, false

-- Fields of a topic that are not settings.
local NOTES = { name = true, tat = true, quiet = true, remembered_ms = true, large = true, grouped = true }

-- A topic's hash, or nil if the topic has settings.
local function without_settings(no)
  local topic, found = {}, redis.call('HGETALL', base .. 't:' .. no)
  for i = 1, #found, 2 do
    if not NOTES[found[i]] then return nil end
    topic[found[i]] = found[i + 1]
  end
  return topic
end

-- True if the topic was first seen empty long ago, with nothing accepted since. `quiet` records the accepted count and
-- the time of that first sight.
local function is_quiet(no, topic, accepted)
  local then_accepted, since = string.match(topic.quiet or '', '^(%d+) (%d+)$')
  since = tonumber(since)
  if tonumber(then_accepted) ~= accepted or since > now then
    redis.call('HSET', base .. 't:' .. no, 'quiet', string.format('%.0f %.0f', accepted, now))
    return false
  end
  local remembered = math.max(tonumber(topic.remembered_ms) or 0, POLICY.remember_cancelled_ms)
  return now - since > math.max(quiet_ms, remembered)
end

local function visit(name, no)
  local topic = without_settings(no)
  if not topic or topic.name ~= name then return end
  local books = books_of(no)
  if not is_balanced(books) or not is_quiet(no, topic, books[1]) then return end
  if steps >= STEPS_A_CALL then
    is_spent = true
  elseif not holds(no) then
    forget_topic(name, no)
    forgotten[#forgotten + 1] = name
  end
end

-- A key of the wrong type stops only its own topic.
local next_page = topics_page(cursor, A_PAGE, function(name, no) pcall(visit, name, no) end)
return { is_spent and #forgotten > 0 and cursor or next_page, unpack(forgotten) }
