-- One answer for each item of the call; a fault of one item does not stop the others (F1).
local function each(from, step, one)
  local answers = {}
  for i = from, #ARGV, step do
    local ok, word = pcall(one, unpack(ARGV, i, i + step - 1))
    if not ok then word = 'failed ' .. (type(word) == 'table' and word.err or word) end
    answers[#answers + 1] = word
  end
  return answers
end
