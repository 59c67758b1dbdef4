-- put/options: reads the options of a message.
--
-- NEEDS    due_of, find, readable, sub
-- GIVES    earlier, expected_due, expected_gen, expected_hash, keep, merges, options_text, read_options, receipt,
--          record, replace, rule, span, tried

-- The last options: messages of a call often share these.
local options_text, replace, earlier, tried, record = '', false, false, nil, nil
-- The receipt that the put acks.
local receipt = nil
-- For a pending message under the id: the rule for the due time, the longest wait of the rule `within` or the window of
-- `throttle` and `swallow`, and whether the content stays. The put is only for a message of the expected due time, content and
-- gen.
local SPANS = { within = true, throttle = true, swallow = true }
local merges, rule, span, keep, expected_due, expected_hash, expected_gen = false, nil, nil, false, nil, nil, nil
local function of_hex(text)
  return (string.gsub(text, '%x%x', function(hex) return string.char(tonumber(hex, 16)) end))
end

local function read_options(options)
  options_text, replace, earlier, tried, record, rule, span, keep = nil, false, false, nil, nil, nil, nil, false
  expected_due, expected_hash, expected_gen, receipt = nil, nil, nil, nil
  for word in string.gmatch(options, '%S+') do
    local name, value = string.match(word, '^(%a+)=?(%w*)$')
    if word == 'replace' then
      replace = true
    elseif word == 'earlier' then
      earlier = true
    elseif word == 'keep' then
      keep = true
    elseif (word == 'later' or word == 'sooner' or word == 'content') and not rule then
      rule = word
    elseif SPANS[name] and not rule and find(value, '^%d+$') then
      rule, span = name, due_of(value)
      if not span then error({ err = 'option ' .. readable(word) }) end
    elseif name == 'expected' and not expected_due and find(value, '^%d+$') then
      expected_due = due_of(value)
      if not expected_due then error({ err = 'option ' .. readable(word) }) end
    elseif name == 'hash' and not expected_hash and find(value, '^%x+$') and #value == 16 then
      expected_hash = of_hex(value)
    elseif name == 'gen' and not expected_gen and (value == 'any' or find(value, '^%d+$')) then
      expected_gen = value
    elseif name == 'ack' and not receipt and find(value, '^%x+$') and #value % 2 == 0 then
      receipt = of_hex(value)
    elseif not record and find(word, '^record=%x+$') and #word == 23 then
      record = sub(word, 8)
    else
      tried = not tried and due_of(string.match(word, '^tried=(%d+)$') or '')
      if not tried then error({ err = 'option ' .. readable(word) }) end
    end
  end
  merges = rule ~= nil or keep or expected_due ~= nil or expected_hash ~= nil or expected_gen ~= nil
  if merges and not replace then error({ err = 'option ' .. readable(options) .. ' without replace' }) end
  -- The receipt places the message, and identifies a repeat.
  if receipt and (replace or earlier or tried or record) then error({ err = 'option ack with another' }) end
  options_text = options
end
