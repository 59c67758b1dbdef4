-- put/options: reads the options of a message.
--
-- NEEDS    due_of, find, readable, sub
-- GIVES    earlier, keep, longest_wait, options_text, read_options, record, replace, rule, tried

-- The last options: messages of a call often share these.
local options_text, replace, earlier, tried, record = '', false, false, nil, nil
-- For a pending message under the id: the rule for the due time, the longest wait of the rule `within`, and whether the
-- content stays.
local rule, longest_wait, keep
local function read_options(options)
  options_text, replace, earlier, tried, record, rule, longest_wait, keep = nil, false, false, nil, nil, nil, nil, false
  for word in string.gmatch(options, '%S+') do
    local name, value = string.match(word, '^(%a+)=?(%w*)$')
    if word == 'replace' then
      replace = true
    elseif word == 'earlier' then
      earlier = true
    elseif word == 'keep' then
      keep = true
    elseif (word == 'later' or word == 'sooner') and not rule then
      rule = word
    elseif name == 'within' and not rule and find(value, '^%d+$') then
      rule, longest_wait = name, due_of(value)
      if not longest_wait then error({ err = 'option ' .. readable(word) }) end
    elseif string.find(word, '^record=%x+$') and #word == 23 then
      record = sub(word, 8)
    else
      tried = due_of(string.match(word, '^tried=(%d+)$') or '')
      if not tried then error({ err = 'option ' .. readable(word) }) end
    end
  end
  if (rule or keep) and not replace then error({ err = 'option ' .. (rule or 'keep') .. ' without replace' }) end
  options_text = options
end
