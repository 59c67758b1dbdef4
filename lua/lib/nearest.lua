-- The earliest alarm set by the call, for `wake.lua`.
local nearest
