-- put/throttle: judges a put with the option `throttle` or `swallow` by the last delivery of the id.
--
-- NEEDS    due, generated, no, now, policy, read, rule, span, state_of, was_put, LEASED, OUTCOME
-- CHANGES  due
-- GIVES    throttled

-- The answer to a put that is swallowed or refused; else nil, the message behind whose window the put is due, if that is later
-- than the put says, and `due` is outside the window of the last delivery. The window begins with the due time of the last
-- delivery, which the marker keeps. A clock that was set back delays a put by one window at most.
local function throttled(id, flags, env)
  if generated(id) then return 'refused ' .. rule .. ' with a generated id' end
  local kept = policy(no, 'remember_own_ms')
  if span > kept then
    return string.format('refused %s of %.0f ms: the topic remembers own ids for %.0f ms (remember_own_ms)', rule, span, kept)
  end
  local m = read(no, id)
  if not m then return nil end
  if rule == 'throttle' then
    local is_last = m.state >= LEASED and m.state <= OUTCOME.delivered and not was_put(m, flags, env)
    local own = due
    if is_last then due = math.max(due, math.min(m.due, now) + span) end
    return nil, due > own and m or nil
  end
  local is_recent = m.state <= LEASED or m.state == OUTCOME.delivered and math.min(m.due, now) + span > now
  return is_recent and string.format('exists %s %.0f', state_of(m), m.state <= LEASED and m.due or m.at) or nil
end
