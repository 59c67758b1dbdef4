#!lua flags=no-writes
-- audit: checks a page of a shard's messages, and counts them by state.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, then 1 a message (1 to 500): body key without its base ("m:<topic no>:<id>", as SCAN found it)
-- RETURNS  delayed, ready, leased, dead, finished, then 2 a finding: kind, name
--            kind  ready (in no bucket: whether its queue has it is left to the caller; the name ends in its gen) |
--                  no_lease | no_dead_entry | no_marker_entry | no_group_entry | no_expiry_entry (what should lead
--                  to it does not) | malformed | wrong_type
--            name  <topic no>:<id>
-- COST     O(log n) and a read of the envelope a message
--# include now, limits, arguments, registry, shard, type, defaults, stats, nearest, alarm, format, fields, envelope, hour, bucket, fault

arguments('audit', 1, 1)
local answer = { 0, 0, 0, 0, 0 }

local function found(kind, name) answer[#answer + 1], answer[#answer + 2] = kind, name end

-- A message of a later format is left to who can read it.
local function unread(key, name, why)
  if why == 'malformed' then found('malformed', name) end
  if why == 'missing' and not is('string', key) then found('wrong_type', name) end
end

local function check(m)
  local state = math.min(m.state, 5)
  if m.state == PENDING and not is_delayed(m) then
    state = READY
    found('ready', receipt_of(m))
  end
  answer[state] = answer[state] + 1
  for _, kind in ipairs(faults_of(m)) do found(kind, name_of(m)) end
end

local keys = {}
for i = 2, #ARGV do keys[i - 1] = base .. ARGV[i] end
for i, env in ipairs(redis.call('MGET', unpack(keys))) do
  local name = string.sub(ARGV[i + 1], 3)
  local no, id = name_parts(name)
  local m, why = decode(no, id, env)
  if m then check(m) else unread(ARGV[i + 1], name, why) end
end
return answer
