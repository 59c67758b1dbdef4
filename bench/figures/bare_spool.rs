//! The limits of a spool: bare SQLite with the same group commits, and the disk alone.

use crate::clock;
use crate::error::BenchError;
use rusqlite::{Connection, TransactionBehavior};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tokio::sync::{mpsc, oneshot};

const SYNCS: u32 = 300;

/// SQLite's smallest write.
const PAGE: usize = 4096;

type Batch = (Vec<Vec<u8>>, oneshot::Sender<()>);

/// Clones share the thread, which ends with the last clone.
#[derive(Clone)]
pub(crate) struct BareSpool {
    queue: mpsc::Sender<Batch>,
}

// === impl BareSpool ===

impl BareSpool {
    /// With a spool's durability: a write-ahead log, synced at every commit.
    pub(crate) fn open(folder: &Path) -> Result<Self, BenchError> {
        let connection = Connection::open(folder.join("bare.db"))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch("CREATE TABLE waiting (seq INTEGER PRIMARY KEY, body BLOB NOT NULL)")?;
        let (queue, batches) = mpsc::channel(1024);
        std::thread::spawn(move || commit(connection, batches));
        Ok(Self { queue })
    }

    pub(crate) async fn append(&self, bodies: Vec<Vec<u8>>) -> Result<(), BenchError> {
        let ended = || BenchError::Wrong("bare SQLite does not commit".to_owned());
        let (answer, answered) = oneshot::channel();
        self.queue.send((bodies, answer)).await.map_err(|_| ended())?;
        answered.await.map_err(|_| ended())
    }
}

/// Commits all waiting batches together. A failure ends the thread and fails the waiters.
fn commit(mut connection: Connection, mut queue: mpsc::Receiver<Batch>) -> rusqlite::Result<()> {
    while let Some(first) = queue.blocking_recv() {
        let mut batches = vec![first];
        while let Ok(next) = queue.try_recv() {
            batches.push(next);
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut insert = transaction.prepare_cached("INSERT INTO waiting (body) VALUES (?)")?;
        for body in batches.iter().flat_map(|(bodies, _)| bodies) {
            insert.execute([body])?;
        }
        drop(insert);
        transaction.commit()?;
        for (_, answer) in batches {
            let _ = answer.send(());
        }
    }
    Ok(())
}

/// Rate at which the disk of a folder syncs an appended page.
pub(crate) fn syncs_a_second(folder: &Path) -> Result<f64, BenchError> {
    let file = File::create(folder.join("synced"))?;
    let start = clock::now();
    for n in 0..SYNCS {
        file.write_all_at(&[n as u8; PAGE], u64::from(n) * PAGE as u64)?;
        file.sync_data()?;
    }
    Ok(f64::from(SYNCS) / (clock::now() - start).as_secs_f64())
}
