-- Moving one pending message to another due time.

-- Takes `m` out of where it is and puts it to `due`, unless it is there already.
local function move_to(m, due)
  if m.state == DELAYED then
    if m.due == due then return end
    bucket_remove(m.no, m.due, m.id .. gen_bytes(m.gen))
  else
    if due <= now and m.due == due then return end
    count('ready', m.no, -1)
  end
  place(m, due)
end
