#!lua flags=no-writes
-- audit: checks a page of a shard's bodies against where they should be, and counts them by state.
--
-- MOVES    nothing
-- KEYS     {ns:shard}:meta, {ns:shard}:never
-- ARGV     layout, then 1 a message (1 to 500): body key without its base ("m:<topic no>:<id>"), as SCAN found it
-- RETURNS  delayed, ready, leased, dead, finished, then the names of bodies that stand in no place
-- COST     O(log n) a message
--# include now, shard, arguments, topic, alarm, envelope, bucket

arguments('audit', 1, 1)
local tally, orphans = { 0, 0, 0, 0, 0 }, {}

-- Whether the index of its state knows the message. A ready one cannot be looked up, for its list is not
-- searched; but nothing is ready before its time.
local function in_place(m)
  local member = m.id .. gen_bytes(m.gen)
  if m.state == PENDING then return is_delayed(m) or m.due <= now end
  if m.state == LEASED then return redis.call('ZSCORE', base .. 'leases', m.no .. ':' .. member) end
  if m.state == DEAD then return redis.call('ZSCORE', base .. 'd:' .. m.no, member) end
  if m.state > DEAD then return redis.call('ZSCORE', base .. 'markers', m.no .. ':' .. m.id) end
  return true
end

for i = 2, #ARGV do
  local no, id = string.match(ARGV[i], '^m:(%d+):(.*)$')
  local m, why = read(no or '', id or '')
  if m then
    local state = math.min(m.state, 5)
    if m.state == PENDING and not is_delayed(m) then state = READY end
    tally[state] = tally[state] + 1
    if not in_place(m) then orphans[#orphans + 1] = ARGV[i] end
  elseif why ~= 'missing' then
    orphans[#orphans + 1] = ARGV[i]
  end
end
for _, name in ipairs(orphans) do tally[#tally + 1] = name end
return tally
