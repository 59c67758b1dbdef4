-- Moving one pending message to another due time.

-- Takes `m` out of where it is and puts it to `due`, unless it is there already: 'ready' or 'delayed'.
local function move_to(m, due)
  if m.due == due then return state_of(m) end
  place_check(m, due)
  unplace(m)
  return place(m, due)
end
