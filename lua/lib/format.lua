-- What the bytes of an envelope mean: the first 32 (frozen for ever), and the optional fields that scripts look at.
-- docs/protocol.md has it byte by byte.
local HEAD, FORMAT = '>BBI2I4I8I8I4I2I2', 1
-- A stored message is PENDING, LEASED, DEAD or over. The pump reads no envelope, so a pending one does not say
-- whether it is delayed or ready: it is delayed while its bucket has it. Answers say READY.
local PENDING, READY, LEASED, DEAD = 1, 2, 3, 4
local HASH, EXPIRES, BACKOFF, GROUP, HEADERS, ZSTD, DOOMED, REASON = 1, 2, 4, 8, 16, 32, 64, 128
-- Its expiry is its topic's, so long after the due time: it moves where that is rescheduled.
local RELATIVE = 256
local INDEXED = EXPIRES + GROUP
