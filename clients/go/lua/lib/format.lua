-- The byte layout of an envelope: the first 32 bytes (frozen for ever), and the optional fields for scripts.
-- docs/protocol.md describes every byte.
local HEAD, FORMAT = '>BBI2I4I8I8I4I2I2', 1
-- The format of a leased message with a successor behind it. Scripts of an earlier version leave such a message alone.
local WITH_SUCCESSOR = 2
-- A stored message is PENDING, LEASED, DEAD or finished. The pump reads no envelope, so a pending message does not
-- record whether it is delayed or ready: it is delayed while in its bucket. Answers use READY.
local PENDING, READY, LEASED, DEAD = 1, 2, 3, 4
local HASH, EXPIRES, BACKOFF, GROUP, HEADERS, ZSTD, DOOMED, REASON = 1, 2, 4, 8, 16, 32, 64, 128
-- REASON is set in answers only: the reason of a stored dead letter has a key of its own.
-- The expiry is the topic's, a fixed time after the due time: a reschedule moves it.
local RELATIVE = 256
-- The time of the first put, for puts again that must not wait longer.
local FIRST = 512
-- The message's own time from its due time to its expiry, which moves like a topic's.
local LIFETIME = 4096
-- A failed message that blocks its group: see `turn.lua`.
local BLOCKS = 16384
-- In answers only: a ready message waits for others of its group, because its group is paused, or because a failed message blocks
-- it. HELD of a leased message: a successor waits behind it.
local HELD, PAUSED, BLOCKED = 1024, 2048, 32768
local INDEXED = EXPIRES + GROUP
-- The messages without a group in fair order, which are one group more: no group has this name.
local NO_GROUP = '\1'
-- The flags that this version does not know. They come from a later version, which may put fields before the payload.
local LATER_FLAGS = 8192
