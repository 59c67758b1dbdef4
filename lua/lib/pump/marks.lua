-- pump/marks: leaves the mark of an owner's pump, or the time of the first pump without an owner.
--
-- NEEDS    call, given, lost_claim, mine, now, orphaned, registry, LAST_MS, SKIPPED_GENS
-- GIVES    marks

-- The word's second half: the mark that this pump leaves, and the mark of older data.
local marks = ''
if mine then
  if orphaned then call('HDEL', KEYS[1], 'orphaned') end
  if ARGV[5] then
    local mark, text = tonumber(registry[6]) or 0, registry[6]
    local is_older = lost_claim or (given or 0) > mark
    if is_older or not text or now >= mark + 1000 or now < mark then
      text = string.format('%.0f', math.max(now, mark + 1, (given or 0) + 1))
      if is_older then
        call('HSET', KEYS[1], 'mark', text, 'older', string.format('%.0f %.0f', mark, now))
        call('HINCRBY', KEYS[1], 'gen', SKIPPED_GENS)
        text = string.format('%s older %.0f', text, mark)
      else
        call('HSET', KEYS[1], 'mark', text)
      end
    end
    marks = ' ' .. text
  end
elseif not orphaned or now < (tonumber(orphaned) or LAST_MS) then
  call('HSET', KEYS[1], 'orphaned', string.format('%.0f', now))
end
