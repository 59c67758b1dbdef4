-- Limits stale entries in a ready queue without consumers: a script that creates stale entries also drops stale entries
-- at the queue's head. Entries after a waiting message go with it, or later.

local function is_stale_ready(no, entry)
  local m, why = read(no, string.sub(entry, 1, -12))
  return why == 'missing' or m ~= nil and (m.state ~= PENDING or gen_bytes(m.gen) ~= string.sub(entry, -11, -8))
end

-- Drops stale entries at the head of a queue: more than the `made` ones of this call, to reduce a backlog.
local function trim(no, key, made)
  local entries = redis.pcall('LRANGE', base .. key, '0', 2 * made + 7)
  local gone = 0
  while entries[gone + 1] and is_stale_ready(no, entries[gone + 1]) do gone = gone + 1 end
  if gone > 0 then redis.call('LTRIM', base .. key, gone, '-1') end
end

-- Trims the list of a group: the parked entries of a paused or full group may wait for long, and meet no reserve until then.
local function trim_parked(no, group, made)
  if type(redis.pcall('ZSCORE', base .. 'k:' .. no, group)) ~= 'string' then return end
  local list = 'p:' .. no .. ':' .. group
  trim(no, list, made)
  if redis.call('EXISTS', base .. list) == 0 then
    redis.pcall('ZREM', base .. 'k:' .. no, group)
    redis.pcall('ZREM', base .. 'n:' .. no, group)
  end
end

-- Call once all messages of the call are in place.
local function trim_ready()
  local in_lists = {}
  for _, m in ipairs(stale_in_groups) do
    local whole, _, _, _, group = pcall(fields, m.env, m.flags)
    if whole then in_lists[m.no .. ':' .. group] = (in_lists[m.no .. ':' .. group] or 0) + 1 end
  end
  for no, made in pairs(made_stale) do
    trim(no, 'r:' .. no, made)
    trim_parked(no, NO_GROUP, made)
  end
  for list, made in pairs(in_lists) do
    local no, group = string.match(list, '^(%d+):(.*)$')
    trim_parked(no, group, made)
  end
end
