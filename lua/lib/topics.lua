-- Walks over the topics of a shard, without forgotten ones: the cost depends on existing topics only.

-- Calls `one` with the name and the number of each topic of a page of about `most`, from a cursor ('0' at first).
-- Returns the start of the next page ('0' at the end). Topics that exist throughout come at least once.
local function topics_page(cursor, most, one)
  local next_page, found = unpack(redis.call('HSCAN', KEYS[1], cursor, 'MATCH', 'topic:*', 'COUNT', most))
  for i = 1, #found, 2 do one(string.sub(found[i], 7), found[i + 1]) end
  return next_page
end
