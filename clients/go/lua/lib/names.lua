-- The rules for names. Clients of every language read stored names: a name outside the rules would fail the whole page.

-- True for UTF-8 of 1 to `most` bytes without control characters.
local function is_printable(text, most)
  if #text == 0 or #text > most then return false end
  if not string.find(text, '[^\32-\126]') then return true end
  -- Characters of two, three and four bytes become spaces. No character begins with a byte that ends another character.
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

-- Makes an arbitrary argument readable for every client.
local function readable(text) return (string.gsub(string.sub(text, 1, 500), '[^\32-\126]', '?')) end
