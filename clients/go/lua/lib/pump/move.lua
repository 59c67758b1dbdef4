-- pump/move: moves a bucket's due messages to their ready queue, and sets the bucket's alarm to the rest.
--
-- NEEDS    any_history, behind, blocked, bucket, call, events, found, index_of_alarms, make_ready, member, members,
--          moved, ms, no, now, now_us, runs, text, times
-- CHANGES  blocked, events, moved, ms, runs, text
-- GIVES    many

local many = members and #members or 0
if many > 0 then
  local stamp = struct.pack('>I7', now_us)
  for j = 1, many do members[j] = members[j] .. stamp end
end
if found.err or many > 0 and not make_ready(no, members) then
  -- Postponed, so that a wrong key stops no other topic.
  ms, many, blocked = now + 1000, 0, blocked + 1
  text = string.format('%d', ms)
  call('ZADD', index_of_alarms, text, member)
else
  if many > 0 then
    call('ZREMRANGEBYRANK', bucket, '0', many == 1 and '0' or many - 1)
    moved = moved + many
    if any_history then
      events = events or {}
      for j = 1, many do
        local e = #events
        events[e + 1], events[e + 2], events[e + 3] = no, string.sub(members[j], 1, -12), 'ready'
      end
    end
    for j = 1, runs and #times or 0 do runs[#runs + 1] = times[j] end
    runs = runs or times
  end
  if behind then
    call('ZADD', index_of_alarms, behind, member)
    ms, text = tonumber(behind), behind
  else
    call('ZREM', index_of_alarms, member)
  end
end
