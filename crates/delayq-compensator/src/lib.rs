//! The compensator: replays writes that could not reach Redis.
