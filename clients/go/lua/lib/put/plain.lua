-- put/plain: lays out the leading plain messages of a call: bodies, buckets, ready entries, groups and answers.
--
-- NEEDS    accepted, answers, any_fair, at, base, bodies, buckets, byte, call, carried, entries, find, free, held,
--          joined, keys, largest, last, last_gen, met, no, now, now_us, plain, records, sub, unleased, usual_max,
--          FORMAT, GROUP, HASH, HEADERS, LAST_MS, ZSTD
-- CHANGES  accepted, at, carried, entries, joined, largest, last_gen, met
-- GIVES    due

-- The last due time, as text for a score and in bytes, and its bucket: messages of a call often share these.
local due_text, due, score, due_bytes, hour_start, bucket
while plain and at <= last do
  local id, text, env, key = ARGV[at], ARGV[at + 1], ARGV[at + 3], keys[accepted + 1]
  if text ~= due_text then
    due_text, due, score = text, nil, text
    if find(text, '^%d+$') then
      due = tonumber(text)
    elseif find(text, '^%+%d+$') then
      due = now + sub(text, 2)
      -- Redis would format a number again for each command.
      score = string.format('%d', due)
    end
    if not due or due == 0 or due > LAST_MS then break end
    due_bytes = struct.pack('>I8', due)
    if due <= now and not held then
      if any_fair then break end
      -- A message already due has no bucket.
      bucket, hour_start = nil, nil
    elseif due - due % 3600000 ~= hour_start then
      -- The name as in `hour.lua`.
      hour_start = due - due % 3600000
      bucket = string.format('b:%s:%d', no, hour_start / 3600000)
    end
  end
  local format, _, high, low = byte(env, 1, 4)
  local record = records and records[accepted + 1]
  if not record and ARGV[at + 2] ~= '' or record and #record ~= 16 or #env < 32 or format ~= FORMAT then break end
  if met and met[key] or not free and call('EXISTS', key) == 1 then break end
  local flags, group, rest = high * 256 + low, nil, 33
  if flags % 2 == HASH then rest = 41 end
  if flags > HASH then
    if bit.band(flags, bit.bnot(HASH + GROUP + HEADERS + ZSTD)) ~= 0 then break end
    if bit.band(flags, GROUP) ~= 0 then
      local length = byte(env, rest) or 0
      group, rest = sub(env, rest + 1, rest + length), rest + 1 + length
      if length == 0 or length > 128 or find(group, '[^\32-\126]') then break end
    end
  end
  if rest > #env + 1 then break end
  if #env > largest then largest = #env end

  local max = sub(env, 31, 32)
  if max == '\0\0' then max = usual_max end
  last_gen = last_gen + 2
  local gen_bytes = struct.pack('>I4', (last_gen + (group and 1 or 0)) % 4294967296)
  local member, n = id .. gen_bytes, 2 * accepted
  accepted = accepted + 1
  if last > 6 then
    met = met or {}
    met[key] = true
  end
  -- '\1\1': FORMAT and PENDING.
  bodies[n + 1], bodies[n + 2] = key, '\1\1' .. sub(env, 3, 4) .. gen_bytes .. due_bytes .. unleased .. max .. sub(env, 33)
  if group then
    joined = joined or {}
    n = #joined
    joined[n + 1], joined[n + 2], joined[n + 3] = base .. 'g:' .. group, score, no .. ':' .. id
  end
  local members = bucket and buckets[bucket]
  if members then
    n = #members
    members[n + 1], members[n + 2] = score, member
    if due < members.first then members.first, members.score = due, score end
  elseif bucket then
    buckets[bucket] = { score, member, first = due, score = score }
  else
    entries = entries or { nil }
    entries[#entries + 1] = member .. struct.pack('>I7', now_us)
  end
  local word = bucket and 'stored' or 'ready'
  answers[accepted + 1] = word
  if record then
    carried = carried or { nil }
    n = #carried
    carried[n + 1], carried[n + 2] = record, string.format('%.0f %s', now, word)
  end
  at = at + 4
end
