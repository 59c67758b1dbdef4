-- Gens: numbers that distinguish each stay of an id in one place. An odd gen marks a message with a group or an expiry,
-- so that settling must read the envelope; an even gen marks all others.
local gen_next, gen_last = 0, 0

-- Takes `n` gens from the shard's counter.
local function gens(n)
  gen_last = redis.call('HINCRBY', KEYS[1], 'gen', 2 * n)
  gen_next = gen_last - 2 * n
end

-- The next of the gens taken; takes one more if none is left.
local function gen(indexed)
  if gen_next == gen_last then gens(1) end
  gen_next = gen_next + 2
  return (gen_next + (indexed and 1 or 0)) % 4294967296
end
