-- The earliest of the alarms that the call set, for `wake.lua`.
local nearest
