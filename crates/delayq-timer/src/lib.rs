//! The timer: owns shards and pumps what is due into the ready queues.
