-- ack/undo: undoes the counts and the new entries of marker lists: the general path tells each message its own fault.
--
-- NEEDS    base, call, listed, lists, new, stats, together, topics
-- CHANGES  together

for i = 1, listed do redis.pcall('LTRIM', lists[i][1], '0', -#lists[i]) end
for i = 1, new and #new or 0 do
  if call('EXISTS', base .. new[i]) == 0 then redis.pcall('ZREM', base .. 'ends', new[i]) end
end
for no, of in pairs(topics) do
  if type(of.left) == 'number' then call('HINCRBY', stats, 'leased:' .. no, of.ended) end
  if type(of.done) == 'number' then call('HINCRBY', stats, 'delivered:' .. no, -of.ended) end
end
together = false
