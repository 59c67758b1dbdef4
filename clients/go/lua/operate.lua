#!lua flags=allow-oom
-- operate: acts on messages that are still as they were seen.
--
-- MOVES    DELAYED | READY -> cancelled | DELAYED | READY | DEAD; DEAD -> READY | DELAYED; LEASED keeps its lease without
--          a further attempt (cancel)
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, topic, record of the call (16 hex digits, or "" for none), action, then 3 a message (0 to 500): id,
--          gen, due ms as seen
--            action   cancel | promote | reschedule <due> | replay <delay ms> | bury <reason>
--            due      ms since the epoch | "+" and a delay in ms from now | "by +" or "by -" and a difference in ms
-- RETURNS  1 if the record was carried out before, else 0, then one answer a message:
--          cancelled | buried | ready <due ms> | delayed <due ms> | leased (will not be retried) |
--          changed <state> <gen> <due ms> (not as seen) | kept <state> (the action is not for this state) |
--          dead | finished <outcome> <ms> | unknown | refused <why> | failed <why>;
--          of a record that was carried out before, the first answers, and nothing is changed
-- COST     O(log n) a message, n = messages of its topic due in its hour
--# include now, limits, arguments, due, delay, registry, shard, topic, durability, defaults, policy, stats, nearest, alarm, gen, format, fields, envelope, hour, bucket, stale, ready, fair, push, note, ends, turn, finish, place, expiry, reschedule, cancel, kill, revive, once, each

if #ARGV ~= 4 then arguments('operate', 4, 3) end
local no, record = topic_no(ARGV[2]), ARGV[3] ~= '' and ARGV[3] or nil
if record and not string.find(record, '^' .. string.rep('%x', 16) .. '$') then
  refuse('a record is 16 hexadecimal digits, not ' .. record)
end
local word, detail = string.match(ARGV[4], '^(%l+) ?(.*)$')
one_of('the action', word or ARGV[4], { 'cancel', 'promote', 'reschedule', 'replay', 'bury' })
local delay = word == 'replay' and number('the delay in ms', detail, 0, LAST_MS - now)
local by = word == 'reschedule' and string.match(detail, '^by ([+-]%d+)$')
if word == 'reschedule' and not by and not due_of(detail) then refuse('no due time: ' .. detail) end
must_wait(no, ARGV[2])
gens(#ARGV)

-- Moves a pending message to `due` by `to`, unless it would have expired by then.
local function move(m, due, to)
  if not due then return 'refused due time' end
  local expires = expiry_at(m, due)
  if expires and expires <= due then return 'refused expiry not after the due time' end
  return string.format('%s %.0f', to(m, due), due)
end

local function bury(m, reason)
  local old = { no = m.no, id = m.id, due = m.due, gen = m.gen, flags = m.flags, env = m.env }
  kill(m, reason)
  unplace(old)
  return 'buried'
end

local function replay(m)
  local due = now + delay
  local expires = expiry_at(m, due)
  if expires and expires <= due then return 'refused expiry not after the due time' end
  return revive(m, due, expires)
end

local function act(m)
  if word == 'cancel' then return cancel(no, m.id) end
  if m.state > DEAD then return string.format('finished %s %.0f', STATE[m.state], m.at) end
  if m.state ~= (word == 'replay' and DEAD or PENDING) then return 'kept ' .. state_of(m) end
  if word == 'replay' then return replay(m) end
  if word == 'bury' then return bury(m, detail) end
  if word == 'reschedule' then return move(m, by and in_range(m.due + by) or not by and due_of(detail), reschedule_to) end
  return is_delayed(m) and move(m, now, move_to) or string.format('ready %.0f', m.due)
end

local function operate(id, seen_gen, seen_due)
  local m, why = read(no, id)
  if not m then return why == 'missing' and 'unknown' or 'failed ' .. why end
  if m.gen ~= tonumber(seen_gen) or m.due ~= tonumber(seen_due) then
    return string.format('changed %s %.0f %.0f', state_of(m), m.gen, m.due)
  end
  return act(m)
end

local before = 1
-- As one text, so that one record answers for the whole call.
local function carry_out()
  before = 0
  local answers = each(5, 3, function(id, g, due) return no and operate(id, g, due) or 'unknown' end)
  for i = 1, #answers do answers[i] = string.gsub(answers[i], '\n', ' ') end
  return 'answers\n' .. table.concat(answers, '\n') .. '\n'
end

local text
if #ARGV > 4 then
  text = once(record, carry_out)
else
  text = record and string.match(redis.call('HGET', base .. 'carried', record) or '', '^%d+ (.*)$') or ''
end
local answer = { before }
for line in string.gmatch(string.match(text, '\n(.*)$') or '', '([^\n]*)\n') do answer[#answer + 1] = line end
trim_ready()
--# include wake
if events then
--# include record
end
return answer
