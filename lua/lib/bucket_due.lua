-- What is due in a bucket, and taking it out: the pump's side of `bucket.lua`, whose structure only these two files
-- know.

-- Most of the time no more is due than these, which are read with their times. Each time read costs, so the first
-- look is at one, and at the one behind it.
local FEW = 16

-- When `members`, the bucket's first, are due: due, count, … in at most 8 runs. A run of several ms is told as
-- its first, so that no lateness is told too small.
local function bucket_runs(bucket, members)
  local first = tonumber(redis.call('ZSCORE', base .. bucket, members[1]))
  local left = #members
  local last = tonumber(redis.call('ZSCORE', base .. bucket, members[left]))
  local width, low, runs = math.max(1, math.ceil((last - first + 1) / 8)), first, {}
  while low + width <= last do
    local some = redis.call('ZCOUNT', base .. bucket, low, low + width - 1)
    if some > 0 then
      runs[#runs + 1], runs[#runs + 2] = low, some
      left = left - some
    end
    low = low + width
  end
  runs[#runs + 1], runs[#runs + 2] = low, left
  return runs
end

local function bucket_due_many(bucket, ms, n)
  local members = redis.call('ZRANGEBYSCORE', base .. bucket, '-inf', ms, 'LIMIT', 0, n)
  local behind = redis.call('ZRANGE', base .. bucket, #members, #members, 'WITHSCORES')
  return members, bucket_runs(bucket, members), behind[2]
end

-- The first `n` members that are due at `ms`; when they are (due, count, …); and when the one behind them is, as
-- text, or nil. Nothing at all where the key is no bucket.
local function bucket_due(bucket, ms, n)
  local found = redis.pcall('ZRANGE', base .. bucket, '0', '1', 'WITHSCORES')
  if found.err then return nil end
  if n > 1 and #found == 4 and tonumber(found[4]) <= ms then
    local few = math.min(n, FEW)
    found = redis.call('ZRANGE', base .. bucket, '0', few, 'WITHSCORES')
    if n > few and #found > 2 * few and tonumber(found[2 * few + 2]) <= ms then
      return bucket_due_many(bucket, ms, n)
    end
  end
  local members, runs = {}, {}
  for i = 1, #found, 2 do
    local due = tonumber(found[i + 1])
    if due > ms or #members == n then return members, runs, found[i + 1] end
    members[#members + 1] = found[i]
    if runs[#runs - 1] == due then
      runs[#runs] = runs[#runs] + 1
    else
      runs[#runs + 1], runs[#runs + 2] = due, 1
    end
  end
  return members, runs
end

-- Takes the first `n` members out.
local function bucket_drop(bucket, n) redis.call('ZREMRANGEBYRANK', base .. bucket, '0', n - 1) end
