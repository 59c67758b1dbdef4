-- The shard counts of a deployment, as `init` and `grow` take them.

-- The counts in a text, parted by commas; nil where it has others, or they do not rise.
local function counts_of(text)
  local list = {}
  for part in string.gmatch(text .. ',', '([^,]*),') do
    local count = within(part, 1, 4096)
    if not count or count <= (list[#list] or 0) then return nil end
    list[#list + 1] = count
  end
  return list
end

-- The node that a layout names behind its number, with its @; '' where it names none.
local function node_of(layout)
  local node = string.match(layout, '@.*') or ''
  if node ~= '' and not (#node <= 33 and string.find(node, '^@[%w_-]+$')) then
    refuse(node .. ' names no node: 1 to 32 ASCII letters, digits, _ and -')
  end
  return node
end
