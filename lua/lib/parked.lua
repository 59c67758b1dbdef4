-- Walks over the queues of a topic's ready messages: the ready queue, and the parked messages of each full group.

-- The group after `group` and its time in `k:<no>`, from ('', '') on; nil at the end.
local function next_parked(no, since, group)
  if redis.call('EXISTS', base .. 'k:' .. no) == 0 then return nil end
  local page = page_behind(base .. 'k:' .. no, since == '' and '-inf' or since, group, 1)
  return page[1], page[2]
end

-- A place in these queues, as text: of a group's queue, the group and its time precede the place.
local function parked_place(since, group, place) return since .. '\31' .. group .. '\31' .. place end

-- The queue that a place is in, the place within it, and the group and its time ('' for the ready queue).
local function queue_at(no, text)
  local since, group, place = string.match(text, '^(%d+)\31([^\31]*)\31(.*)$')
  if not since then return 'r:' .. no, text, '', '' end
  return 'p:' .. no .. ':' .. group, place, since, group
end
