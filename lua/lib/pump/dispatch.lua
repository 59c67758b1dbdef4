-- pump/dispatch: hands each index that is due to its function.
--
-- NEEDS    block, cut_leases, expire, gens, indexes, lease_over, pump_ends, pump_index, pump_markers

local HANDLED = { leases = lease_over, expiries = expire }

local most = 0
for i = 2, #indexes, 2 do most = most + indexes[i] end
gens(most)
for i = 1, #indexes, 2 do
  local index, n = indexes[i], indexes[i + 1]
  if index == 'markers' then
    pump_markers(n)
  elseif index == 'ends' then
    pump_ends(n)
  elseif HANDLED[index] then
    pump_index(index, n, HANDLED[index], index == 'leases' and cut_leases)
  else
    block(index)
  end
end
