-- ack/judge: judges each message by its proof, and lays out what ends: bodies, markers, groups, expiries and answers.
--
-- NEEDS    answers, base, blind, byte, keys, last, now, proof, sub, together, topic, whose, BACKOFF, BLOCKS, EXPIRES,
--          FORMAT, GROUP, HASH, INDEXED, LEASED
-- CHANGES  topic
-- GIVES    ended, expiring, freed, gone, grouped, landed, lists, marked, others

-- `ended` has the receipts that end, with the body to delete, or the temporary marker in its place. `lists` are the
-- lists of `ends.lua`: each key with its new receipts. `freed` are the entries of messages that blocked their groups.
local ended, marked, lists, gone, grouped, expiring, landed, freed, others = { nil }, { nil, nil }, nil, nil, nil, nil, nil, nil, nil
local remembered, into, now_bytes
for k = 1, together and blind and last - 1 or 0 do
  if proof[k] then
    topic, gone = whose[k], gone or { nil }
    topic.ended = topic.ended + 1
    ended[#ended + 1], gone[#gone + 1], answers[k] = ARGV[k + 1], keys[k], 'delivered'
  else
    answers[k] = 'expired'
  end
end
for k = 1, together and not blind and last - 1 or 0 do
  local receipt, env = ARGV[k + 1], proof[k]
  local format, state, high, low = byte(env or '', 1, 4)
  local flags, group, expires = high and high * 256 + low, nil, false
  local whole = format == FORMAT and state == LEASED and #env >= 32 and sub(env, 5, 8) == sub(receipt, -4)
  if whole and flags > HASH and bit.band(flags, INDEXED) > 0 then
    local at = flags % 2 == HASH and 41 or 33
    expires = bit.band(flags, EXPIRES) > 0
    if expires then at = at + 8 end
    if bit.band(flags, BACKOFF) > 0 then at = at + 1 + (byte(env, at) or 0) end
    if bit.band(flags, GROUP) > 0 then
      local length = byte(env, at) or 0
      group, at = sub(env, at + 1, at + length), at + 1 + length
    end
    whole = at <= #env + 1
  end
  if not whole then
    others = others or {}
    others[#others + 1] = k
  else
    topic = whose[k]
    topic.ended = topic.ended + 1
    local n = #topic.no
    local remember = #receipt == n + 21 and byte(receipt, n + 2) < 32 and topic.generated or topic.own
    if remember == 0 then
      gone = gone or { nil }
      gone[#gone + 1] = keys[k]
    else
      local has_hash, m = flags % 2 == HASH, #marked
      if remember ~= remembered then
        -- The name as in `ends.lua`.
        local until_ms = now + remember
        remembered, into = remember, { string.format('%se:%d', base, until_ms + -until_ms % math.ceil(remember / 8)), nil }
        lists = lists or { nil }
        lists[#lists + 1] = into
      end
      now_bytes = now_bytes or struct.pack('>I8', now)
      into[#into + 1] = receipt
      marked[m + 1], marked[m + 2] = keys[k], (has_hash and '\1\5\0\1' or '\1\5\0\0') .. sub(env, 5, 16) .. now_bytes
        .. sub(env, 25, has_hash and 40 or 32)
    end
    if group then
      grouped = grouped or {}
      grouped[#grouped + 1], grouped[#grouped + 2] = base .. 'g:' .. group, sub(receipt, 1, -5)
      if topic.limits or flags >= BLOCKS then
        landed = landed or {}
        landed[#landed + 1], landed[#landed + 2], landed[#landed + 3] = topic.no, group, receipt
      end
      if flags >= BLOCKS then
        freed = freed or { nil }
        freed[#freed + 1], freed[#freed + 2] = base .. 'x:' .. topic.no, group .. '\31' .. sub(receipt, n + 2, -5)
      end
    end
    if expires then
      expiring = expiring or {}
      expiring[#expiring + 1] = sub(receipt, 1, -5)
    end
    ended[#ended + 1], answers[k] = receipt, 'delivered'
  end
end
