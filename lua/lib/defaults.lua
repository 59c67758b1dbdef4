-- What holds for a topic where `configure` set nothing.
local MAX_ATTEMPTS, REMEMBER_CANCELLED_MS, REMEMBER_OWN_MS = 16, 3600000, 60000
