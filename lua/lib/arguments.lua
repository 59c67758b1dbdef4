-- How many arguments a call brings: a wrong number is refused by name, before anything is written.

-- `fixed` arguments, the layout among them, and behind them, where `each` is given, so many for each of 1 to 500 items.
local function arguments(verb, fixed, each)
  local items = each and (#ARGV - fixed) / each or 0
  local right = each and items >= 1 and items <= 500 and items % 1 == 0 or not each and #ARGV == fixed
  if right then return end
  local behind = each and string.format(' and %d for each of 1 to 500 items', each) or ''
  error({ err = string.format('DQARG %s takes %d arguments%s, not %d', verb, fixed, behind, #ARGV) })
end
