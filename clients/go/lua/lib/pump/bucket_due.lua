-- pump/bucket_due: reads the due entries of `bucket` if more than one message is due: the first `n` members, their due
-- times (due, count, …), and the due time of the following member as text, or nil. The counterpart of `bucket.lua`.
--
-- NEEDS    behind, bucket, call, found, members, n, now, times
-- CHANGES  behind, found, members, times

-- Reading times is costly: reads only the times of due members, and no times for large batches.
local due = math.min(call('ZCOUNT', bucket, '-inf', now), n)
members, times = {}, {}
if due <= 16 then
  found = call('ZRANGE', bucket, '0', due, 'WITHSCORES')
  behind = found[2 * due + 2]
  for j = 1, due do
    local at = tonumber(found[2 * j])
    members[j] = found[2 * j - 1]
    if times[#times - 1] == at then
      times[#times] = times[#times] + 1
    else
      times[#times + 1], times[#times + 2] = at, 1
    end
  end
else
  members = call('ZRANGE', bucket, '0', due - 1)
  behind = call('ZRANGE', bucket, due, due, 'WITHSCORES')[2]
  -- At most 8 runs. A run of several ms is reported as its first, so that lateness is never understated.
  local left, low = due, tonumber(call('ZSCORE', bucket, members[1]))
  local latest_due = tonumber(call('ZSCORE', bucket, members[due]))
  local width = math.max(1, math.ceil((latest_due - low + 1) / 8))
  while low + width <= latest_due do
    local some = call('ZCOUNT', bucket, low, low + width - 1)
    if some > 0 then
      times[#times + 1], times[#times + 2] = low, some
      left = left - some
    end
    low = low + width
  end
  times[#times + 1], times[#times + 2] = low, left
end
