//! A direction of a proxied connection: reads, waits as the flow demands, applies an armed fault, writes.

use super::dialer::Dialer;
use super::{AfterLoss, Direction, Flow, State};
use crate::resp::{Frame, first_reply};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// Chunks that a held direction takes in before reading stops; the client's own buffers come after that.
const CHUNKS_HELD: usize = 1024;
const CHUNK_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Not cut.
    Bytes,
    /// Redis replies.
    Resp,
}

#[derive(Clone, Copy)]
pub(super) struct Way<'a> {
    pub(super) direction: Direction,
    pub(super) framing: Framing,
    pub(super) number: u64,
    pub(super) dialer: &'a Dialer,
    pub(super) state: &'a watch::Sender<State>,
}

/// The connection must be reset: a fault struck, or one end reset.
#[derive(Debug)]
pub(super) struct Broken;

/// Bytes (the end, if empty) and their arrival time.
struct Chunk {
    bytes: Vec<u8>,
    came: Instant,
}

#[derive(Debug, PartialEq, Eq)]
enum Strike {
    None,
    /// Only this many bytes pass; then the connection is reset.
    Cut(usize),
    /// The piece does not pass.
    Lose(AfterLoss),
}

/// Carries one direction to its end, with a queue so that a delay does not reduce the rate.
pub(super) async fn carry(way: Way<'_>, mut from: ReadHalf<'_>, to: WriteHalf<'_>) -> Result<(), Broken> {
    let (queue, queued) = mpsc::channel(CHUNKS_HELD);
    let reading = async move {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            way.wait_reading().await;
            let count = from.read(&mut buffer).await.map_err(|_| Broken)?;
            let chunk = Chunk { bytes: buffer[..count].to_vec(), came: Instant::now() };
            if queue.send(chunk).await.is_err() || count == 0 {
                return Ok(());
            }
        }
    };
    tokio::try_join!(reading, write_on(way, queued, to)).map(|((), ())| ())
}

async fn write_on(
    way: Way<'_>,
    mut queued: mpsc::Receiver<Chunk>,
    mut to: WriteHalf<'_>,
) -> Result<(), Broken> {
    let mut framing = way.framing;
    let mut partial = Vec::new();
    while let Some(chunk) = queued.recv().await {
        way.wait_passing(chunk.came).await;
        if chunk.bytes.is_empty() {
            let _ = to.shutdown().await;
            return Ok(());
        }
        partial.extend_from_slice(&chunk.bytes);
        while !partial.is_empty() {
            let piece = match framing {
                Framing::Bytes => partial.len(),
                Framing::Resp => match first_reply(&partial) {
                    Frame::Whole(length) => length,
                    Frame::Partial => break,
                    // Not Redis's protocol, such as TLS: carried unchanged.
                    Frame::Alien => {
                        framing = Framing::Bytes;
                        partial.len()
                    }
                },
            };
            let piece: Vec<u8> = partial.drain(..piece).collect();
            match way.strike(piece.len(), framing) {
                Strike::None => to.write_all(&piece).await.map_err(|_| Broken)?,
                Strike::Cut(passing) => {
                    let _ = to.write_all(&piece[..passing]).await;
                    let _ = to.flush().await;
                    return Err(Broken);
                }
                Strike::Lose(AfterLoss::Reset) => return Err(Broken),
                Strike::Lose(AfterLoss::Silence) => {
                    // Reads on and drops, so that the server never blocks on this connection.
                    while queued.recv().await.is_some_and(|chunk| !chunk.bytes.is_empty()) {}
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

// === impl Way ===

impl Way<'_> {
    async fn wait_reading(&self) {
        let mut changes = self.state.subscribe();
        let read = |state: &State| state.flow(self.direction, self.number, self.dialer) != Flow::Unread;
        let _ = changes.wait_for(read).await;
    }

    /// Returns when a chunk with this arrival time may pass.
    async fn wait_passing(&self, came: Instant) {
        let mut changes = self.state.subscribe();
        loop {
            let flow = changes.borrow_and_update().flow(self.direction, self.number, self.dialer);
            let wait = match flow {
                Flow::Pass => return,
                Flow::Delay(delay) => (came + delay).saturating_duration_since(Instant::now()),
                Flow::Hold | Flow::Unread => Duration::MAX,
            };
            if wait.is_zero() {
                return;
            }
            if wait == Duration::MAX {
                let _ = changes.changed().await;
            } else {
                // A change during the delay decides again.
                let _ = tokio::time::timeout(wait, changes.changed()).await;
            }
        }
    }

    /// Counts a piece against the armed faults, and returns their effect.
    fn strike(&self, bytes: usize, framing: Framing) -> Strike {
        let mut strike = Strike::None;
        self.state.send_if_modified(|state| {
            strike = state.strike(self.direction, bytes, framing);
            strike != Strike::None
        });
        strike
    }
}

// === impl State ===

impl State {
    fn strike(&mut self, direction: Direction, bytes: usize, framing: Framing) -> Strike {
        if let Some((armed, left)) = self.cutting.filter(|(armed, _)| *armed == direction) {
            if left <= bytes as u64 {
                self.cutting = None;
                self.losses += 1;
                return Strike::Cut(usize::try_from(left).expect("it is at most the length of a piece"));
            }
            self.cutting = Some((armed, left - bytes as u64));
        }
        if direction == Direction::Replies && framing == Framing::Resp {
            match self.losing {
                Some((0, then)) => {
                    self.losing = None;
                    self.losses += 1;
                    return Strike::Lose(then);
                }
                Some((passing, then)) => self.losing = Some((passing - 1, then)),
                None => {}
            }
        }
        Strike::None
    }
}
