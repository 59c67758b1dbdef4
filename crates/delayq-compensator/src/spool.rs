//! The spool as a source: the waiting records, in order, and the outcomes.

use crate::ballast::{BALLAST_BYTES, Ballast};
use crate::config::CompensatorConfig;
use crate::outcome::{BEHIND, Outcome};
use crate::redis_clock::RedisClock;
use crate::source::{HandedOut, RecordContent, Source, SourceState, Want};
use crate::source_metrics::{SourceMetrics, SourcesMetrics};
use crate::writes::Write;
use async_trait::async_trait;
use delayq::protocol::{Holder, Probe, ShardId};
use delayq::spool::AnyRecord;
use delayq::{Client, Fate, Topic};
use delayq_spool::{Settled, SpoolError, SpoolReader, SpoolStats, Spooled};
use prometheus_client::metrics::counter::Counter;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, sleep_until};

/// The shortest time between two reads of the books.
const BOOKS_EVERY: Duration = Duration::from_secs(1);
/// Interval between tries to open an unusable spool.
const OPEN_EVERY: Duration = Duration::from_secs(5);
/// Interval between notes of Redis's clock.
const CLOCK_EVERY: Duration = Duration::from_secs(60);
/// Interval between probes of an idle Redis.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// Number of tries of some resting records before all are tried: a record may be mended that is not among the tried ones of
/// the same cause.
const TRIES_OF_SOME: u32 = 60;

/// A spool.
pub(crate) struct SpoolSource {
    config: CompensatorConfig,
    client: Client,
    folder: PathBuf,
    /// The name of the folder's owner, as reported by a second compensator.
    holder: String,
    /// Maximum number of records in a batch, and now: fewer after a batch that filled the disk.
    batch: usize,
    max: usize,
    metrics: SourceMetrics,
    /// Records ever appended.
    spooled: Counter,
    reader: Option<Arc<Mutex<SpoolReader>>>,
    /// The last failure to open the spool, with the time.
    closed: Option<(Instant, String)>,
    /// Tasks that run while the spool is open.
    beside: JoinSet<()>,
    ballast: Ballast,
    /// No room is reserved, so the spool is kept as small as possible.
    is_tight: bool,
    /// Why the folder has other files than the open ones.
    moved: Option<String>,
    /// No record waits that is to be dated by Redis's clock, or the spool was told of that clock.
    is_dated: bool,
    /// The number of the last record that was read in this pass over the spool.
    read: u64,
    /// Once this number is read, reading begins again with the first record, resting records included.
    again_behind: Option<u64>,
    /// The number up to which records had been read when reading last began again. Only after a later record does reading
    /// begin again: otherwise many resting records would keep the records behind from ever being read.
    front: u64,
    /// Number of resting records, and of partial tries since all were tried.
    resting: u64,
    tries: u32,
    /// Some resting record was carried out: reading soon begins again, so none is tried until then.
    is_mended: bool,
    /// The batch consists of resting records.
    is_rested: bool,
    /// The change of a group that is being tried for the first time.
    begun: Option<u64>,
    /// Due time of the next batch, by the rate.
    not_before: Instant,
    /// The time of the next look, if nothing waited the last time.
    idle_until: Option<Instant>,
    books: SpoolStats,
    books_at: Option<Instant>,
}

/// The handle of a record.
#[derive(Debug)]
pub(crate) struct SpoolKey {
    seq: u64,
    topic: Option<Topic>,
}

#[async_trait]
impl Source for SpoolSource {
    type Key = SpoolKey;

    async fn next(&mut self, want: Want, until: Instant) -> Result<Vec<HandedOut<SpoolKey>>, String> {
        if want == Want::Nothing {
            sleep_until(until.into()).await;
            return Ok(Vec::new());
        }
        self.open().await?;
        self.is_rested = want == Want::Rested;
        match want {
            Want::Rested => self.rested().await,
            _ => self.unrested(until).await,
        }
    }

    async fn begin(&mut self, place: &SpoolKey) -> Result<(), String> {
        let seq = place.seq;
        let begun = self.with(move |reader| reader.note_fate(seq, Fate::Unknown)).await;
        if begun.is_err() {
            self.read_back(seq);
        }
        self.begun = Some(seq);
        begun
    }

    async fn settle(&mut self, what: Vec<(SpoolKey, Outcome)>) -> Result<(), String> {
        let (mut settled, mut sent, mut is_over) = (Settled::default(), 0_u32, false);
        let (first, mut not_applied) = (what.first().map(|(place, _)| place.seq), None);
        for (SpoolKey { seq, topic }, outcome) in what {
            sent += u32::from(outcome.is_tried());
            is_over |= outcome.is_over();
            if let Outcome::Hold(Fate::NotApplied, _) | Outcome::Rest(Fate::NotApplied, _) = outcome {
                not_applied = self.begun.filter(|begun| *begun == seq).or(not_applied);
            }
            match outcome {
                Outcome::Done => settled.done.push(seq),
                Outcome::Reject(reason) => {
                    tracing::error!(seq, reason, "rejected a spooled record and set it aside");
                    settled.rejected.push((seq, reason));
                }
                Outcome::Rest(_, why) => {
                    let cause = || format!("{} {why}", topic.as_ref().map_or("", Topic::as_str));
                    settled.resting.push((seq, (why != BEHIND).then(cause)));
                    self.resting += u64::from(!self.is_rested);
                }
                Outcome::Hold(..) | Outcome::Untried => self.read_back(seq),
            }
        }
        if self.config.rate > 0 {
            self.not_before = Instant::now() + Duration::from_secs(1) * sent / self.config.rate;
        }
        self.begun = None;
        let noted = self.note(settled).await;
        // Redis recognises the repeat of a write that could not be noted.
        if let (Err(_), Some(first)) = (&noted, first) {
            self.read_back(first);
        }
        noted?;
        // The cause seems to be over.
        if self.is_rested && is_over {
            self.is_mended = true;
            self.read_all_again(self.front + 1).await?;
        }
        match not_applied {
            Some(seq) => self.with(move |reader| reader.note_fate(seq, Fate::NotApplied)).await,
            None => Ok(()),
        }
    }

    fn seen(&self) -> SourceState {
        let SpoolStats { waiting, rejected, bytes, .. } = self.books;
        SourceState {
            waiting: Some(waiting),
            rejected: Some(rejected),
            resting: self.resting,
            oldest: self.books.oldest_age(),
            bytes: Some(bytes),
            wrong: self.moved.clone(),
        }
    }

    async fn close(&mut self) {
        self.beside.shutdown().await;
    }
}

// === impl SpoolSource ===

impl SpoolSource {
    pub(crate) fn new(
        config: CompensatorConfig,
        client: Client,
        (folder, holder): (PathBuf, String),
        metrics: &SourcesMetrics,
    ) -> Self {
        let batch = match config.rate {
            0 => config.batch.into(),
            rate => usize::from(config.batch).min(rate as usize),
        };
        Self {
            config,
            client,
            ballast: Ballast::of(&folder),
            folder,
            holder,
            batch,
            max: batch,
            metrics: metrics.of("spool"),
            spooled: metrics.spooled.clone(),
            reader: None,
            closed: None,
            beside: JoinSet::new(),
            is_tight: false,
            moved: None,
            is_dated: false,
            read: 0,
            again_behind: Some(0),
            front: 0,
            resting: 0,
            tries: 0,
            is_mended: false,
            is_rested: false,
            begun: None,
            not_before: Instant::now(),
            idle_until: None,
            books: SpoolStats::default(),
            books_at: None,
        }
    }

    pub(crate) fn metrics(&self) -> &SourceMetrics {
        &self.metrics
    }

    /// Opens the spool if needed: takes the lease on the folder, checks the file, and reserves room.
    async fn open(&mut self) -> Result<(), String> {
        if self.reader.is_some() {
            return Ok(());
        }
        if let Some((at, why)) = &self.closed
            && at.elapsed() < OPEN_EVERY
        {
            return Err(why.clone());
        }
        let opened = self.try_open().await;
        opened.map_err(|error| {
            let why = format!("cannot open the spool: {error}");
            self.closed = Some((Instant::now(), why.clone()));
            why
        })
    }

    /// The same, at once.
    pub(crate) async fn try_open(&mut self) -> Result<(), SpoolError> {
        let (folder, holder, ballast) = (self.folder.clone(), self.holder.clone(), self.ballast.clone());
        let opened = spawn_blocking(move || match SpoolReader::open(&folder, &holder) {
            // SQLite creates the index of the log again, in the room that an earlier process kept.
            Err(SpoolError::DiskFull { .. }) if ballast.give() => SpoolReader::open(&folder, &holder),
            opened => opened,
        });
        let reader = Arc::new(Mutex::new(opened.await.unwrap_or(Err(SpoolError::Closed))?));
        let clock = RedisClock::new(self.client.clone(), &reader);
        self.beside.spawn(stay_connected(self.client.clone()));
        self.beside.spawn(note_the_clock(clock));
        self.reader = Some(reader);
        self.keep_ballast().await;
        Ok(())
    }

    /// Some of the resting records.
    async fn rested(&mut self) -> Result<Vec<HandedOut<SpoolKey>>, String> {
        if self.resting == 0 || self.is_mended {
            return Ok(Vec::new());
        }
        let (read, max) = (self.read, self.max);
        let Some(found) = self.with(move |reader| reader.resting(read, max)).await? else {
            self.again_behind = Some(0);
            return Ok(Vec::new());
        };
        self.tries += 1;
        if self.tries > TRIES_OF_SOME && self.again_behind.is_none() {
            self.read_all_again(u64::MAX).await?;
        }
        Ok(self.recorded(found))
    }

    /// Reads this record again, and all records behind that do not rest.
    fn read_back(&mut self, seq: u64) {
        if !self.is_rested {
            self.read = self.read.min(seq.saturating_sub(1));
        }
    }

    /// Reads all records again, once this number or the last record is read.
    async fn read_all_again(&mut self, number: u64) -> Result<(), String> {
        let number = number.min(self.with(|reader| reader.last()).await?);
        self.again_behind = Some(self.again_behind.map_or(number, |earlier| earlier.min(number)));
        Ok(())
    }

    /// True if it is time to begin again with the first record.
    fn begins_again(&self) -> bool {
        self.again_behind.is_some_and(|last| last <= self.read)
    }

    /// The records behind those that were read.
    async fn unrested(&mut self, until: Instant) -> Result<Vec<HandedOut<SpoolKey>>, String> {
        sleep_until(self.not_before.min(until).into()).await;
        if self.not_before > Instant::now() || !self.has_changed(until).await? {
            return Ok(Vec::new());
        }
        self.idle_until = None;
        self.date().await?;
        if self.begins_again() {
            self.with(SpoolReader::end_rest).await?;
            self.front = self.front.max(self.read);
            (self.read, self.resting, self.tries) = (0, 0, 0);
            (self.again_behind, self.is_mended) = (None, false);
        }
        loop {
            let (read, max) = (self.read, self.max);
            let mut batch = self.with(move |reader| reader.waiting(read, max)).await?;
            self.max = (2 * self.max).min(self.batch);
            self.read = batch.last().map_or(read, |last| last.seq);
            let is_end = batch.is_empty();
            if is_end {
                // The number may be that of a record that an operator has discarded.
                self.again_behind = self.again_behind.map(|_| 0);
            }
            self.keep_books(is_end).await?;
            batch.retain(|spooled| !spooled.is_resting);
            if is_end || !batch.is_empty() {
                return Ok(self.recorded(batch));
            }
        }
    }

    /// Waits for a change of the spool since the last read to the end, or until then. True if there was a change.
    async fn has_changed(&mut self, until: Instant) -> Result<bool, String> {
        let Some(at) = self.idle_until.filter(|_| !self.begins_again()) else { return Ok(true) };
        sleep_until(at.min(until).into()).await;
        if at > Instant::now() {
            return Ok(false);
        }
        self.idle_until = Some(Instant::now() + *self.config.poll_interval);
        Ok(self.with(SpoolReader::has_changed).await? || self.has_moved().await?)
    }

    fn recorded(&self, batch: Vec<Spooled>) -> Vec<HandedOut<SpoolKey>> {
        let recorded = |Spooled { seq, id, rests, record, .. }| {
            let topic = record.as_ref().ok().and_then(AnyRecord::message).map(|of| of.topic.clone());
            let what = match record {
                Err(why) => RecordContent::Unfit(why),
                Ok(_) if rests => RecordContent::Behind,
                Ok(AnyRecord::Group(record)) => RecordContent::Change(record),
                Ok(AnyRecord::Message(record)) => {
                    let mut write = Write::new(record, Some(id), None);
                    write.is_first &= !self.is_rested;
                    RecordContent::Write(write)
                }
            };
            HandedOut { key: SpoolKey { seq, topic }, what }
        };
        batch.into_iter().map(recorded).collect()
    }

    /// Tells the spool of Redis's clock, where records of an earlier boot wait.
    async fn date(&mut self) -> Result<(), String> {
        // Records appended from now on are of this boot.
        if !self.is_dated {
            self.is_dated = !self.with(|reader| reader.spans_boots()).await?;
        }
        if let (false, Some(reader)) = (self.is_dated, &self.reader) {
            self.is_dated = RedisClock::new(self.client.clone(), reader).tell().await;
        }
        Ok(())
    }

    async fn note(&mut self, mut settled: Settled) -> Result<(), String> {
        if settled.is_empty() {
            return Ok(());
        }
        // Ranges are removed faster.
        settled.done.sort_unstable();
        let rejected = settled.rejected.len() as u64;
        self.with(move |reader| reader.note(&settled)).await?;
        self.metrics.settled("rejected").inc_by(rejected);
        Ok(())
    }

    /// Reads the books, if due, and returns unused space to the disk; `is_end`: nothing more can be read.
    async fn keep_books(&mut self, is_end: bool) -> Result<(), String> {
        let is_idle = is_end && self.resting == 0;
        if is_end {
            self.idle_until = Some(Instant::now() + *self.config.poll_interval);
        }
        if is_idle {
            // A record that an operator let wait again has an old number.
            self.read = 0;
        }
        if self.is_tight || is_idle && self.books_at.is_some() {
            self.shrink().await?;
        }
        if is_idle && self.is_tight {
            self.keep_ballast().await;
        }
        if is_idle || self.books_at.is_none_or(|at| at.elapsed() >= BOOKS_EVERY) {
            self.follow_folder(is_idle).await?;
            self.books = self.with(|reader| reader.books()).await?;
            // The spool counts appended records, over all lives of this process.
            self.spooled.inner().store(self.books.spooled, Ordering::Relaxed);
            self.books_at = Some(Instant::now());
        }
        Ok(())
    }

    async fn has_moved(&mut self) -> Result<bool, String> {
        Ok(self.with(|reader| Ok(reader.has_moved())).await?.is_some())
    }

    /// Follows the folder to other files, but only after all records in the open files are carried out: these were
    /// acknowledged, and no other process can read them.
    async fn follow_folder(&mut self, is_idle: bool) -> Result<(), String> {
        let Some(moved) = self.with(|reader| Ok(reader.has_moved())).await? else {
            self.moved = None;
            return Ok(());
        };
        let moved = moved.to_string();
        if self.moved.is_none() {
            tracing::error!("{moved}: applying the waiting records of the open files first");
        }
        self.moved = Some(moved);
        if is_idle {
            self.moved = self.with(SpoolReader::follow_folder).await.err();
            self.again_behind = Some(0);
            if self.moved.is_none() {
                tracing::info!("reading the spool from its folder again");
            }
        }
        Ok(())
    }

    /// Reserves room, unless the disk has none to spare.
    async fn keep_ballast(&mut self) {
        let ballast = self.ballast.clone();
        let taken = spawn_blocking(move || ballast.take()).await;
        let result = taken.unwrap_or_else(|panicked| Err(std::io::Error::other(panicked)));
        if let (Err(error), false) = (&result, self.is_tight) {
            tracing::warn!(%error, bytes = BALLAST_BYTES, "cannot reserve room for resubmitting on a full disk");
        }
        self.is_tight = result.is_err();
    }

    /// Merges the spool's log into the database, and returns unused space to the disk.
    async fn shrink(&self) -> Result<(), String> {
        match self.work(|reader| reader.shrink()).await {
            Err(SpoolError::DiskFull { .. }) => Ok(()),
            result => result.map_err(|error| error.to_string()),
        }
    }

    /// Works with the reader; on a full disk in the reserved room.
    async fn with<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut SpoolReader) -> Result<T, SpoolError> + Clone + Send + 'static,
    ) -> Result<T, String> {
        loop {
            match self.work(work.clone()).await {
                Err(full @ SpoolError::DiskFull { .. }) => {
                    self.is_tight = true;
                    self.max = self.max.div_ceil(2);
                    if !self.ballast.give() {
                        return Err(full.to_string());
                    }
                    tracing::warn!("{full}: using the reserved space");
                    self.shrink().await?;
                }
                result => return result.map_err(|error| error.to_string()),
            }
        }
    }

    /// Works with the reader on a thread that may block.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SpoolReader) -> Result<T, SpoolError> + Send + 'static,
    ) -> Result<T, SpoolError> {
        let reader = self.reader.clone().ok_or(SpoolError::Closed)?;
        let worked = spawn_blocking(move || {
            // The database has rolled back a transaction that a panic interrupted.
            work(&mut reader.lock().unwrap_or_else(PoisonError::into_inner))
        });
        worked.await.unwrap_or(Err(SpoolError::Closed))
    }
}

/// Probes a shard of each Redis now and then, so that a silent connection is replaced before a record needs the connection.
async fn stay_connected(client: Client) {
    let places = Holder::new(client.clone()).places();
    loop {
        sleep(ASK_EVERY).await;
        let by_node = places.by_node(client.shards().shards(), |&shard| shard);
        let of_each: Vec<ShardId> = by_node.iter().map(|shards| shards[0]).collect();
        // The client itself replaces a failed connection.
        let _ = Probe::new(&client).takes_puts(&of_each).await;
    }
}

/// Notes Redis's clock from time to time, so that an outage across a reboot finds a note of the boot before.
async fn note_the_clock(clock: RedisClock) {
    loop {
        sleep(CLOCK_EVERY).await;
        clock.note().await;
    }
}
