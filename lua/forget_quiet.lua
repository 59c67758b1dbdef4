#!lua flags=allow-oom
-- forget_quiet: forgets unused topics of a page: those that hold nothing, have no settings and had no put for long.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, where the page begins (0 at first, then what the last call answered), ms of quiet (1 to 2^52: since the
--          topic was first seen empty, with no put since; at least as long as it ever remembered a finished id)
-- RETURNS  where the next page begins (0: with the first again; the same page where not all could be forgotten in one call),
--          then the name of each topic that was forgotten
-- COST     O(1) a topic, some 50 a call; as `forget` for each that is forgotten, some 10 a call
--# include now, registry, shard, type, nearest, alarm, limits, arguments, cursor, defaults, policy, format, fields, hour, topics, histories, empty

arguments('forget_quiet', 3)
local cursor = topics_cursor(ARGV[2])
local quiet_ms = number('the quiet time in ms', ARGV[3], 1, LONGEST_SPAN_MS)
-- What is held is held for a clock that is not trusted.
if held then return { cursor } end
must_be('hash', 'stats')
local A_PAGE, STEPS_A_CALL = 50, 20
local forgotten, is_spent = {}, false

-- What a topic has that is no setting of its own.
local NOTES = { name = true, tat = true, quiet = true, remembered_ms = true, large = true }

-- A topic's hash, or nil where it has settings of its own.
local function without_settings(no)
  local topic, found = {}, redis.call('HGETALL', base .. 't:' .. no)
  for i = 1, #found, 2 do
    if not NOTES[found[i]] then return nil end
    topic[found[i]] = found[i + 1]
  end
  return topic
end

-- Whether the topic was first seen empty long ago, with nothing accepted since. `quiet` has how many messages it had
-- accepted then, and when that was.
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

-- A key of the wrong type keeps one topic, and not the others.
local next_page = topics_page(cursor, A_PAGE, function(name, no) pcall(visit, name, no) end)
return { is_spent and #forgotten > 0 and cursor or next_page, unpack(forgotten) }
