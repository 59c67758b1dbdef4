-- pump/hindered: checks the hold, the clock and the epoch, and returns if the call may not move anything.
--
-- NEEDS    alarms, blocked, buried, call, epoch, expired, forgotten, held, latest, mine, moved, now, now_us, returned,
--          soonest, LONGEST_SPAN_MS
-- GIVES    lost_claim

local hindered, lost_claim
if held then
  hindered = 'held'
elseif latest and now > latest then
  hindered = 'ahead'
elseif not mine then
  if not soonest or soonest + 10000 > now then hindered = 'not overdue' end
elseif mine < epoch then
  hindered = 'fenced ' .. epoch
elseif mine > epoch then
  -- Later claims increment this number, and must be able to.
  if mine > LONGEST_SPAN_MS then return redis.error_reply('DQARG the epoch ' .. ARGV[2] .. ' exceeds every epoch of a claim') end
  call('HSET', KEYS[1], 'epoch', string.format('%.0f', mine))
  lost_claim = true
end
if hindered then
  return { hindered, now_us, alarms[2] or '', moved, returned, buried, expired, forgotten, blocked }
end
