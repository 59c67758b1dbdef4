-- put/again: judges a put whose id was put before: what stands under the id, what a replacement removes, a repeat that
-- comes late.
--
-- NEEDS    base, call, count, fields, gen_bytes, generated, no, note, now, policies, put_successor, read, replace,
--          rule, state_of, sub, tried, unplace, DEAD, HASH, LEASED, OUTCOME, PENDING
-- GIVES    displace, is_same, is_stale, taken, was_put

local function is_same(m, flags, env) return bit.band(flags, HASH) == 0 or sub(m.env, 33, 40) == sub(env, 33, 40) end

-- True if the first try put `m`, which ended since then: a replacement would deliver it again. A throttled put also finds `m` leased,
-- but no delivery that began before the first try: an earlier put may have had the same content.
local function was_put(m, flags, env)
  if not tried or not is_same(m, flags, env) then return false end
  if rule ~= 'throttle' then return m.state >= DEAD and m.at > tried end
  return m.state >= LEASED and (m.state == LEASED or m.at > tried) and (m.due >= tried or m.state > OUTCOME.delivered)
end

-- Judges a message whose id is taken: an answer, or nil and the message to replace.
local function taken(id, flags, env, max)
  local m, why = read(no, id)
  if not m then return 'conflict ' .. why .. ' 0' end
  if not replace or was_put(m, flags, env) then
    local time = m.state <= LEASED and m.due or m.at
    return string.format('%s %s %.0f', is_same(m, flags, env) and 'exists' or 'conflict', state_of(m), time)
  end
  if m.state == LEASED then return rule == 'throttle' and put_successor(m, flags, env, max) or 'leased' end
  return nil, m
end

-- Removes a replaced message from its place, except from the indexes that hold the new message. The put has acked a leased
-- message.
local function displace(old, expires, group)
  local name = no .. ':' .. old.id
  if old.state > DEAD then
    call('ZREM', base .. 'markers', name)
    return
  end
  if old.state == PENDING then unplace(old) end
  if old.state == DEAD then call('ZREM', base .. 'd:' .. no, old.id .. gen_bytes(old.gen)) end
  local _, had_expiry, _, had_group = fields(old.env, old.flags)
  if had_expiry and not expires then call('ZREM', base .. 'expiries', name) end
  if had_group and had_group ~= group then call('ZREM', base .. 'g:' .. had_group, name) end
  local word = old.state == LEASED and 'delivered' or 'replaced'
  count(word, no, 1)
  note(no, old.id, word)
end

-- True if the topic refuses a repeat without a trace, because it may have forgotten the first try.
local function is_stale(id)
  if call('HGET', base .. 't:' .. no, 'repeats') ~= 'refuse' then return false end
  local remember = generated(id) and 'remember_generated_ms' or 'remember_own_ms'
  return tried + math.min(policies(no, 'remember_cancelled_ms', remember)) <= now
end
