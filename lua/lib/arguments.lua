-- Arguments: their number, and the numeric ones. Invalid arguments are refused by name, before any write.

local function refuse(why) error({ err = 'DQARG ' .. string.gsub(why, '[^\32-\126]', '?') }) end

-- Checks for `fixed` arguments, including the layout, followed by `each` arguments for each of 1 to 500 items, if
-- given.
local function arguments(verb, fixed, each)
  local items = each and (#ARGV - fixed) / each or 0
  local right = each and items >= 1 and items <= MOST_IDS and items % 1 == 0 or not each and #ARGV == fixed
  if right then return end
  local behind = each and string.format(' and %d for each of 1 to 500 items', each) or ''
  refuse(string.format('%s takes %d arguments%s, not %d', verb, fixed, behind, #ARGV))
end

-- The whole number in a text; nil unless from `least` to `most`. Refuses a leading zero: a text stored unchanged must
-- be a number to Redis as well.
local function within(text, least, most)
  local n = (text == '0' or string.find(text, '^%-?[1-9]%d*$')) and tonumber(text)
  return n and n >= least and n <= most and n or nil
end

-- Reads a whole number.
local function number(what, text, least, most)
  return within(text, least, most)
    or refuse(string.format('%s must be a whole number from %.0f to %.0f, not %s', what, least, most, text))
end

-- Reads one of the words in `known`.
local function one_of(what, text, known)
  for _, word in ipairs(known) do
    if text == word then return text end
  end
  refuse(string.format('%s must be %s, not %s', what, table.concat(known, ', '), text))
end
