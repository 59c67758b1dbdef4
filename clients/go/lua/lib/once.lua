-- Recorded writes. A caller that may repeat a write, because it has not noted the answer yet, names the write's record:
-- 16 hex digits. `carried` keeps the answer until the record is settled, so that each record is carried out once.

-- The id and the record of an item: no id has a NUL before its last 16 bytes.
local function with_record(item)
  if string.byte(item, -17) ~= 0 or #item < 18 then return item, nil end
  return string.sub(item, 1, -18), string.sub(item, -16)
end

-- Answers that change nothing and may differ later: the next call counts as a first try.
local OPEN = { leased = true, stale = true, moved = true, refused = true, failed = true }

-- Carries out a write unless its record was carried out; returns the first answer.
local function once(record, write)
  if not record then return write() end
  local carried = redis.call('HGET', base .. 'carried', record)
  if carried then return string.match(carried, '^%d+ (.*)$') end
  local word = write()
  if not OPEN[string.match(word, '^%a+')] then
    redis.call('HSET', base .. 'carried', record, string.format('%.0f %s', now, word))
  end
  return word
end
