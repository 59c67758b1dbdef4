-- The rules for names. A client of any language reads what is stored: a name outside the rules would fail its whole page.

-- Whether a text is UTF-8 of 1 to `most` bytes without control characters.
local function is_printable(text, most)
  if #text == 0 or #text > most then return false end
  if not string.find(text, '[^\32-\126]') then return true end
  -- Characters of two, three and four bytes become spaces. None begins with a byte that another one ends with.
  text = string.gsub(text, '\194[\128-\159]', '\127')
  text = string.gsub(text, '[\194-\223][\128-\191]', ' ')
  text = string.gsub(text, '\224[\160-\191][\128-\191]', ' ')
  text = string.gsub(text, '\237[\128-\159][\128-\191]', ' ')
  text = string.gsub(text, '[\225-\236\238\239][\128-\191][\128-\191]', ' ')
  text = string.gsub(text, '\240[\144-\191][\128-\191][\128-\191]', ' ')
  text = string.gsub(text, '[\241-\243][\128-\191][\128-\191][\128-\191]', ' ')
  text = string.gsub(text, '\244[\128-\143][\128-\191][\128-\191]', ' ')
  return not string.find(text, '[^\32-\126]')
end

-- Text that every client can read, of an argument that may be anything.
local function readable(text) return (string.gsub(string.sub(text, 1, 500), '[^\32-\126]', '?')) end
