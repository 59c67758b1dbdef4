//! The bell of other systems: tokio's timer, with a grain of one millisecond.

use std::io;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Bell;

// === impl Bell ===

impl Bell {
    #[expect(clippy::unnecessary_wraps, reason = "the bell of Linux may fail")]
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self)
    }

    /// Returns `left` from now.
    #[expect(clippy::unnecessary_wraps, reason = "the bell of Linux may fail")]
    pub(super) async fn ring(&mut self, _at: Instant, left: Duration) -> io::Result<()> {
        tokio::time::sleep(left).await;
        Ok(())
    }
}
