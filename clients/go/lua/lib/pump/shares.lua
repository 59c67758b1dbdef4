-- pump/shares: divides the limit: each topic and each index has a share.
--
-- NEEDS    alarms, rang
-- GIVES    hours, parts, unfinished

-- `hours` has the number of due buckets per topic; `unfinished` has the topics with more due than moved: their later
-- hours wait, so that the oldest goes first.
local hours, unfinished, parts = nil, nil, rang
if rang > 1 then hours, unfinished = {}, {} end
for i = 1, hours and rang or 0 do
  local no = string.match(alarms[2 * i - 1], '^b:(%d+):')
  if no then
    if hours[no] then parts = parts - 1 end
    hours[no] = (hours[no] or 0) + 1
  end
end
