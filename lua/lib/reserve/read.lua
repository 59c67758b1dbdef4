-- reserve/read: reads the plain messages at the head of a topic's queue, as far as all are plain, and lays out their
-- leases and answers.
--
-- NEEDS    answer, at, byte, bytes, call, entries, leased_head, many, max_bytes, no, now, prefix, sub, terms, until_ms,
--          EXPIRES, FORMAT, HASH, INDEXED, LATER_FLAGS, PENDING
-- CHANGES  bytes
-- GIVES    heads, keys, last_gen, leases, taken, until_text

local keys, leases, heads, met, taken = { prefix .. sub(entries[1], 1, -12) }, { nil, nil }, { nil }, nil, 0
for i = 2, many do keys[i] = prefix .. sub(entries[i], 1, -12) end
-- Reads all messages in one command, unless the topic has large messages: then as many as the bytes have room
-- for.
local large, envs, before, behind = tonumber(terms[5]), nil, 0, 0
local last_gen = call('HINCRBY', KEYS[1], 'gen', many == 1 and '2' or 2 * many)
local gen = last_gen - 2 * many
local until_text, until_bytes = string.format('%d', until_ms), struct.pack('>I8', until_ms)
local stamp, ready_us
for i = 1, many do
  if bytes >= max_bytes then break end
  if i > behind then
    before, behind = behind, large and math.min(behind + math.max(math.floor((max_bytes - bytes) / large), 1), many) or many
    envs = call('MGET', unpack(keys, i, behind))
  end
  local entry, env, key = entries[i], envs[i - before], keys[i]
  local format, state, high, low = byte(env or '', 1, 4)
  -- An interrupted pump may have left an entry twice.
  if format ~= FORMAT or state ~= PENDING or #env < 32 or met and met[key]
    or sub(env, 5, 8) ~= sub(entry, -11, -8) then break end
  local flags = high * 256 + low
  if flags >= LATER_FLAGS and bit.band(flags, LATER_FLAGS) > 0 then break end
  if flags > HASH and bit.band(flags, EXPIRES) > 0 then
    local from = flags % 2 == 1 and 41 or 33
    if #env < from + 7 or struct.unpack('>I8', env, from) <= now then break end
  end
  gen = gen + 2
  if many > 1 then
    met = met or {}
    met[key] = true
  end
  local g = struct.pack('>I4', (gen + (flags > HASH and bit.band(flags, INDEXED) > 0 and 1 or 0)) % 4294967296)
  local receipt = no .. ':' .. sub(entry, 1, -12) .. g
  heads[i] = leased_head(env, g, until_bytes)
  leases[2 * i - 1], leases[2 * i] = until_text, receipt
  local ready = sub(entry, -7)
  if ready ~= stamp then stamp, ready_us = ready, struct.unpack('>I7', ready) end
  local a = at + 3 * i
  answer[a + 1], answer[a + 2], answer[a + 3] = ready_us, receipt, env
  taken, bytes = i, bytes + #env
end
