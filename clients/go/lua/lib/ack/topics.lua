-- ack/topics: reads the policies of the messages' topics, and says which way all messages take.
--
-- NEEDS    base, bodies, byte, find, keys, last, sub, REMEMBER_OWN_MS
-- GIVES    any_history, any_large, blind, events, together, topic, topics, whose

-- The fast path handles all messages together, without a function: creating a function costs as much as a command.
-- `whose` has the topic of each message. `blind` is true while only bodies need to go, because the topics forget their
-- messages and no index holds them. `together` is false if a receipt repeats, or a topic is unreadable.
local topics, whose, topic, met, blind, together = {}, { nil }, nil, nil, true, true
-- True if a topic has large messages, of which only the inspected part is read.
local any_history, any_large, events
for k = 1, last - 1 do
  local receipt = ARGV[k + 1]
  if not topic or find(receipt, topic.no, 1, true) ~= 1 or byte(receipt, #topic.no + 1) ~= 58 then
    local no = string.match(receipt, '^([^:]*):') or ''
    topic = topics[no]
    if not topic then
      local policy = redis.pcall('HMGET', base .. 't:' .. no, 'remember_own_ms', 'remember_generated_ms', 'history', 'large',
        'grouped')
      if policy.err then together = false end
      any_history, any_large = any_history or policy[3] and policy[3] ~= '0', any_large or policy[4]
      topic = { no = no, ended = 0, own = tonumber(policy[1]) or REMEMBER_OWN_MS, generated = tonumber(policy[2]) or 0,
        limits = policy[5] or nil }
      topics[no] = topic
    end
  end
  local n = #topic.no
  local is_generated = #receipt == n + 21 and byte(receipt, n + 2) < 32
  -- A message with an own id may have a successor.
  blind = blind and is_generated and topic.generated == 0 and byte(receipt, -1) % 2 == 0
  keys[k], whose[k] = bodies .. sub(receipt, 1, -5), topic
  if last > 2 then
    met = met or {}
    if met[receipt] then together = false end
    met[receipt] = true
  end
end
