-- Gens: numbers that distinguish each stay of an id in one place. An odd gen marks a message with a group or an expiry,
-- so that settling must read the envelope; an even gen marks all others.
local gen_next

-- Takes `n` gens from the shard's counter.
local function gens(n)
  gen_next = redis.call('HINCRBY', KEYS[1], 'gen', 2 * n) - 2 * n
end

local function gen(indexed)
  gen_next = gen_next + 2
  return (gen_next + (indexed and 1 or 0)) % 4294967296
end
