-- Gens: the numbers that tell one life of an id in one place from every other. An odd gen says that the
-- message has a group or an expiry, so that settling it must look into its envelope; an even one, that it has not.
local gen_next

-- Takes `n` gens from the shard's counter.
local function gens(n)
  gen_next = redis.call('HINCRBY', KEYS[1], 'gen', 2 * n) - 2 * n
end

local function gen(indexed)
  gen_next = gen_next + 2
  return (gen_next + (indexed and 1 or 0)) % 4294967296
end
