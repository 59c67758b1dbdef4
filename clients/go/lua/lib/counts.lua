-- The shard counts of a deployment, as arguments of `init` and `grow`.

-- The counts in a comma-separated text; nil for invalid or non-rising counts.
local function counts_of(text)
  local list = {}
  for part in string.gmatch(text .. ',', '([^,]*),') do
    local count = within(part, 1, 4096)
    if not count or count <= (list[#list] or 0) then return nil end
    list[#list + 1] = count
  end
  return list
end

-- The node after a layout's number, including the @; '' without a node.
local function node_of(layout)
  local node = string.match(layout, '@.*') or ''
  if node ~= '' and not (#node <= 33 and string.find(node, '^@[%w_-]+$')) then
    refuse(node .. ' names no node: 1 to 32 ASCII letters, digits, _ and -')
  end
  return node
end
