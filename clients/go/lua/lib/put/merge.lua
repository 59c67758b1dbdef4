-- put/merge: merges a put again with the pending message under its id, by the options `later`, `sooner`, `content`,
-- `within`, `throttle` and `keep`, and judges the options `expected`, `hash` and `gen`.
--
-- NEEDS    due, expected_due, expected_gen, expected_hash, fields, is_same, keep, no, now, read, rule, span, state_of,
--          sub, throttled, was_put, whole_of, BLOCKS, DEAD, EXPIRES, FIRST, HASH, LEASED, PENDING, RELATIVE, STATE
-- CHANGES  due
-- GIVES    again, meet, pending_at

-- The pending message under an id; nil if there is none, or if its optional fields are unreadable.
local function pending_at(id)
  local m = read(no, id)
  return m and m.state == PENDING and pcall(fields, m.env, m.flags) and m or nil
end

local function again(word, old) return string.format('again %s %.0f %.0f', word, old.due, due) end

local function merged_due(old, first)
  if rule == 'later' then return math.max(due, old.due) end
  if rule == 'sooner' then return math.min(due, old.due) end
  if rule == 'within' then return math.min(due, first + span) end
  return rule and old.due or due
end

-- True if the message has the expected due time and gen; `any` is every gen.
local function is_expected(m)
  return (not expected_due or m.due == expected_due)
    and (not expected_gen or expected_gen == 'any' or expected_gen == string.format('%.0f', m.gen))
end

-- The answer to a put whose message is not as expected; nil if it is as expected, or if the first try put it. The repeat of a
-- put that has changed the message gets the first answer again.
local function unexpected(id, pending, env, flags)
  if not pending then
    local m, why = read(no, id)
    if m and (was_put(m, flags, env) or expected_gen and m.state >= DEAD and is_expected(m)) then return nil end
    if m then return m.state == LEASED and 'leased' or string.format('changed %s %.0f', STATE[m.state], m.at) end
    return why == 'missing' and 'unknown' or 'conflict ' .. why .. ' 0'
  end
  local hash, _, _, _, _, first = fields(pending.env, pending.flags)
  if is_expected(pending) and (not expected_hash or hash == expected_hash) then return nil end
  due = merged_due(pending, first or pending.at)
  if due == pending.due and not keep and bit.band(flags, HASH) > 0 and is_same(pending, flags, env) then
    return again(state_of(pending), pending)
  end
  return string.format('changed %s %.0f', state_of(pending), pending.due)
end

-- The stored content and its flags, without a block of the group, and without an expiry of the topic, which the new due time
-- gives again.
local function stored_content(old)
  local env, flags = whole_of(no, old.id), bit.band(old.flags, bit.bnot(BLOCKS))
  if bit.band(flags, RELATIVE) == 0 then return env, flags end
  local before = bit.band(flags, HASH) > 0 and 40 or 32
  return sub(env, 1, before) .. sub(env, before + 9), flags - EXPIRES - RELATIVE
end

-- An envelope with another time of the first put, or without (nil), and its flags.
local function with_first(env, flags, first)
  local _, _, _, _, at, had = fields(env, flags)
  local before = sub(env, 1, had and at - 9 or at - 1)
  if had then flags = flags - FIRST end
  if not first then return before .. sub(env, at), flags end
  return before .. struct.pack('>I8', first) .. sub(env, at), flags + FIRST
end

-- Merges with `old`, or with nothing (nil), and sets `due`. Returns the answer if nothing has to be stored; else nil, the
-- maximum attempts, the envelope, and its flags.
local function merge(old, env, flags, max)
  if not old then return nil, max, with_first(env, flags, rule == 'within' and now or nil) end
  local _, _, _, _, _, had = fields(old.env, old.flags)
  -- A message that does not say when it was first put has waited since its last put or move.
  local first = had or rule == 'within' and old.at or nil
  due = merged_due(old, first)
  if not keep then return nil, max, with_first(env, flags, first) end
  if due == old.due and first == had then return again(state_of(old), old) end
  env, flags = stored_content(old)
  return nil, old.max, with_first(env, flags, first)
end

-- Meets what is under the id: the answer; or nil, and what is to be stored, as `merge` returns it, and the message that moved
-- the due time.
local function meet(id, pending, env, flags, max)
  local answer, behind = (expected_due or expected_hash or expected_gen) and unexpected(id, pending, env, flags), nil
  if not answer and (rule == 'throttle' or rule == 'swallow') then answer, behind = throttled(id, flags, env) end
  if answer then return answer end
  answer, max, env, flags = merge(pending, env, flags, max)
  return answer, max, env, flags, pending or behind
end
