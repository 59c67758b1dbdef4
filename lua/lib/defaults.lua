-- The defaults of a topic's settings.
local MAX_ATTEMPTS, REMEMBER_CANCELLED_MS, REMEMBER_OWN_MS = 16, 3600000, 60000
