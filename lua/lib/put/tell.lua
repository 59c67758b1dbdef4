-- put/tell: announces a first ready message, and notes stored messages for a history.
--
-- NEEDS    accepted, answers, any_history, base, bodies, entries, events, length, no, topic
-- CHANGES  events

if entries and length == #entries then redis.call('SPUBLISH', base .. 'ready', topic) end
if any_history then
  events = { nil }
  for i = 1, accepted do
    local what = string.format('put %.0f %s', struct.unpack('>I8', bodies[2 * i], 9), answers[i + 1])
    events[3 * i - 2], events[3 * i - 1], events[3 * i] = no, ARGV[4 * i - 1], what
  end
end
