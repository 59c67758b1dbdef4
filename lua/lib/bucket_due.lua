-- What is due in `bucket`, the pump's side of `bucket.lua`, where more than one message is: the first `n` members that are
-- due now; when they are (due, count, …); and when the one behind them is, as text, or nil.

-- Most of the time no more is due than these, which are read with their times. Each time read costs.
local few = math.min(n, 16)
found, members, times, behind = call('ZRANGE', bucket, '0', few, 'WITHSCORES'), {}, {}, nil
if n > few and found[2 * few + 2] and tonumber(found[2 * few + 2]) <= now then
  members = call('ZRANGEBYSCORE', bucket, '-inf', now, 'LIMIT', 0, n)
  behind = call('ZRANGE', bucket, #members, #members, 'WITHSCORES')[2]
  -- In at most 8 runs. A run of several ms is told as its first, so that no lateness is told too small.
  local left, low = #members, tonumber(call('ZSCORE', bucket, members[1]))
  local latest_due = tonumber(call('ZSCORE', bucket, members[left]))
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
else
  for j = 1, #found, 2 do
    local due = tonumber(found[j + 1])
    if due > now or #members == n then
      behind = found[j + 1]
      break
    end
    members[#members + 1] = found[j]
    if times[#times - 1] == due then
      times[#times] = times[#times] + 1
    else
      times[#times + 1], times[#times + 2] = due, 1
    end
  end
end
