-- Back-offs: kind (1 byte), then 4-byte numbers in ms. 1, fixed: the delay. 2, exponential: first and longest delay;
-- doubles, and picks at random between half and all of the delay. 3, list: 1 to 32 delays; the last repeats.
local DEFAULT_BACKOFF = struct.pack('>BI4I4', 2, 1000, 600000)

-- True for a valid back-off: known kind, right length, no delay of 0.
local function is_backoff(spec)
  local kind, delays = string.byte(spec), (#spec - 1) / 4
  local right = kind == 1 and delays == 1 or kind == 2 and delays == 2
    or kind == 3 and delays >= 1 and delays <= 32 and delays % 1 == 0
  if not right then return false end
  for at = 2, #spec, 4 do
    if struct.unpack('>I4', spec, at) == 0 then return false end
  end
  return kind ~= 2 or string.sub(spec, 2, 5) <= string.sub(spec, 6, 9)
end
