-- The bucket of a due time: one per topic and hour, `b:<topic no>:<hour>`.
local HOUR_MS = 3600000

local last_start, last_no, last_bucket
local function bucket_of(no, due)
  local start = due - due % HOUR_MS
  if start ~= last_start or no ~= last_no then
    last_start, last_no, last_bucket = start, no, string.format('b:%s:%d', no, start / HOUR_MS)
  end
  return last_bucket
end
