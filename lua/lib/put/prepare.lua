-- put/prepare: reads the records of a call and the free ids, and says whether leading messages may be plain.
--
-- NEEDS    base, call, find, last, no, now, terms, MAX_ATTEMPTS
-- GIVES    any_history, bodies, buckets, carried, entries, events, free, joined, keys, largest, last_gen, max_default,
--          met, plain, records, unleased, usual_max

local any_history, events = terms and terms[3] and terms[3] ~= '0', nil
local plain = terms and not terms.err and (not terms[2] or tonumber(terms[2]) == 0)
-- The additions: keys and bodies, buckets with scores and members, ready entries, groups' keys with score and name.
local keys, bodies, buckets, entries, joined, met
local max_default, free, last_gen, usual_max, unleased
-- The largest envelope of the call.
local largest = 0
-- The records of a call, usually of all its messages or of none, and the entries that `once.lua` keeps for carried-out
-- records.
local records, carried
for i = 5, plain and find(ARGV[5], '^record=') and last or 0, 4 do
  records = records or { nil }
  records[#records + 1] = string.match(ARGV[i], '^record=(%x+)$')
end
if records then
  local before = redis.pcall('HMGET', base .. 'carried', unpack(records))
  plain = not before.err and #records * 4 == last - 2
  for i = 1, #before do plain = plain and not before[i] end
end
if plain then
  max_default = tonumber(terms[1]) or MAX_ATTEMPTS
  -- The part of every head after the due time: now, and no lease.
  usual_max, unleased = struct.pack('>I2', max_default), struct.pack('>I8', now) .. '\0\0\0\0\0\0'
  local key_of = base .. 'm:' .. no .. ':'
  keys = { key_of .. ARGV[3] }
  for i = 7, last, 4 do keys[#keys + 1] = key_of .. ARGV[i] end
  -- Usually one check covers all.
  free = call('EXISTS', unpack(keys)) == 0
  -- The last gen. The counter advances by two, since the lowest bit has a meaning of its own.
  last_gen = call('HINCRBY', KEYS[1], 'gen', last == 6 and '2' or 2 * #keys) - 2 * #keys
  bodies, buckets = { nil, nil }, {}
end
