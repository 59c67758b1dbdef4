-- put/options: reads the options of a message.
--
-- NEEDS    due_of, readable, sub
-- GIVES    earlier, options_text, read_options, record, replace, tried

-- The last options: messages of a call often share these.
local options_text, replace, earlier, tried, record = '', false, false, nil, nil
local function read_options(options)
  options_text, replace, earlier, tried, record = nil, false, false, nil, nil
  for word in string.gmatch(options, '%S+') do
    if word == 'replace' then
      replace = true
    elseif word == 'earlier' then
      earlier = true
    elseif string.find(word, '^record=%x+$') and #word == 23 then
      record = sub(word, 8)
    else
      tried = due_of(string.match(word, '^tried=(%d+)$') or '')
      if not tried then error({ err = 'option ' .. readable(word) }) end
    end
  end
  options_text = options
end
