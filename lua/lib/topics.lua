-- Going through the topics of a shard, those that were forgotten left out: it costs what is there, not what ever was.

-- Calls `one` with the name and the number of each topic of a page of about `most`, from a cursor on ('0' at first). Returns
-- where the next page begins ('0' when through). What is there all the while comes at least once.
local function topics_page(cursor, most, one)
  local next_page, found = unpack(redis.call('HSCAN', KEYS[1], cursor, 'MATCH', 'topic:*', 'COUNT', most))
  for i = 1, #found, 2 do one(string.sub(found[i], 7), found[i + 1]) end
  return next_page
end
