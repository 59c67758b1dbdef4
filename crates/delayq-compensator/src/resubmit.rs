//! One step: a batch from the spool to Redis, and what became of each record.

use crate::outcome::Settle;
use crate::probes::Probes;
use crate::resting::Resting;
use crate::writes::{Carrier, Write};
use delayq::spool::{AnyRecord, GroupRecord};
use delayq::{Client, Fate, UnixMillis};
use delayq_spool::{SpoolError, SpoolReader, SpoolStats, Spooled};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often some of what rests is tried again before all of it is: one may be mended that is not among those of its cause.
const TRIES_OF_SOME: u32 = 60;

/// Resubmits a spool, one batch a step.
#[derive(Debug)]
pub struct Resubmitter {
    reader: Arc<Mutex<SpoolReader>>,
    carrier: Carrier,
    batch: usize,
    /// Maximum number of records in a step now: fewer after a step that filled the disk.
    max: usize,
    /// Redis was unavailable the last time: it is probed before anything is sent.
    doubtful: bool,
    /// The number of the last record that was read in this pass over the spool.
    read: u64,
    resting: Resting,
    /// Those of them that are tried again.
    probes: Probes,
    /// How often they were, since all were.
    tries: u32,
    /// It is time to try them again.
    is_time: bool,
    /// A put that has waited for longer is set aside.
    max_age: Option<Duration>,
}

/// What one step did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records that were sent to Redis.
    pub sent: u64,
    /// Records that were carried out.
    pub resubmitted: u64,
    /// Records that were set aside.
    pub rejected: u64,
    /// Why the others stay in the spool; `None`: none had to.
    pub held: Option<String>,
    /// Whether there was nothing more to read.
    pub at_end: bool,
    /// At the end: how many records rest alone, until [`Resubmitter::begin_again`].
    pub resting: u64,
}

/// What is to be recorded after the calls.
#[derive(Default)]
struct Tally {
    sent: u64,
    done: Vec<u64>,
    rejected: Vec<(u64, String)>,
    untried: Vec<u64>,
    /// How many rest alone.
    resting: u64,
    held: Option<String>,
}

/// What is carried out in one go.
enum Part {
    /// Writes of messages, and their numbers.
    Messages(Vec<u64>, Vec<Write>),
    /// A change of a group, its number, and when it was first tried since it was spooled.
    Group(u64, GroupRecord, Option<UnixMillis>),
}

// === impl Part ===

impl Part {
    /// Adds a record behind the others.
    fn add(parts: &mut Vec<Self>, seq: u64, record: AnyRecord, tried: Option<UnixMillis>) {
        match (record, parts.last_mut()) {
            (AnyRecord::Group(record), _) => parts.push(Self::Group(seq, record, tried)),
            (AnyRecord::Message(record), Some(Self::Messages(numbers, writes))) => {
                numbers.push(seq);
                writes.push(Write::new(record, tried));
            }
            (AnyRecord::Message(record), _) => {
                parts.push(Self::Messages(vec![seq], vec![Write::new(record, tried)]));
            }
        }
    }
}

// === impl Resubmitter ===

impl Resubmitter {
    /// Resubmits to this deployment, at most `batch` records a step.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(reader: SpoolReader, client: Client, batch: usize) -> Self {
        let carrier = Carrier::new(client);
        let reader = Arc::new(Mutex::new(reader));
        Self {
            reader,
            carrier,
            batch,
            max: batch,
            doubtful: false,
            read: 0,
            resting: Resting::default(),
            probes: Probes::default(),
            tries: 0,
            is_time: false,
            max_age: None,
        }
    }

    /// Sets puts aside that have waited for longer than this.
    #[must_use]
    pub fn max_age(mut self, max_age: Option<Duration>) -> Self {
        self.max_age = max_age;
        self
    }

    /// Begins again with the first record, those that rest alone included.
    pub fn begin_again(&mut self) {
        (self.read, self.resting, self.probes) = (0, Resting::default(), Probes::default());
        (self.tries, self.is_time) = (0, false);
    }

    /// Tries what rests alone again in the next step, ahead of its batch: a few records of each cause. Once one of them can
    /// be carried out, or what waits is not what rested, it begins again with the first record; now and then in any case.
    pub fn try_again(&mut self) {
        self.is_time = true;
    }

    /// Resubmits one batch; a smaller one after a step that filled the disk. A dropped future may have resubmitted some of
    /// it, which is recognised the next time.
    ///
    /// # Errors
    /// The spool cannot be read or written; what was resubmitted is resubmitted again.
    pub async fn run_once(&mut self) -> Result<Report, SpoolError> {
        let result = self.resubmit_next().await;
        if result.is_err() {
            self.begin_again();
        }
        self.max = match result {
            Err(SpoolError::DiskFull { .. }) => self.max.div_ceil(2),
            _ => (2 * self.max).min(self.batch),
        };
        result
    }

    async fn resubmit_next(&mut self) -> Result<Report, SpoolError> {
        let tried = match mem::take(&mut self.is_time) {
            true => self.try_some().await?,
            false => Report::default(),
        };
        if tried.held.is_some() {
            return Ok(tried);
        }
        let next = self.read_on().await?;
        Ok(Report {
            sent: tried.sent + next.sent,
            resubmitted: tried.resubmitted + next.resubmitted,
            rejected: tried.rejected + next.rejected,
            ..next
        })
    }

    /// Resubmits the records behind those that were read.
    async fn read_on(&mut self) -> Result<Report, SpoolError> {
        let (read, max) = (self.read, self.max);
        let batch = self.with(move |reader| reader.waiting(read, max)).await?;
        let Some(last) = batch.last().map(|last| last.seq) else {
            let resting = self.resting.count();
            if resting == 0 {
                // What was let wait again has an old number.
                self.begin_again();
            }
            return Ok(Report { at_end: true, resting, ..Report::default() });
        };
        let report = self.resubmit(batch).await?;
        match self.doubtful {
            true => self.begin_again(),
            false => self.read = last,
        }
        Ok(report)
    }

    /// Tries some of what rests again.
    async fn try_some(&mut self) -> Result<Report, SpoolError> {
        self.tries += 1;
        let (read, numbers) = (self.read, self.probes.numbers(self.max));
        let look = move |reader: &mut SpoolReader| Ok((reader.count_to(read)?, reader.numbered(&numbers)?));
        let (waiting, some) = self.with(look).await?;
        // What was let wait again has an old number.
        if waiting != self.resting.count() || self.tries > TRIES_OF_SOME {
            self.begin_again();
            return Ok(Report::default());
        }
        let (resting, probes) = (mem::take(&mut self.resting), mem::take(&mut self.probes));
        let report = self.resubmit(some).await?;
        match self.doubtful || report.resubmitted + report.rejected > 0 {
            true => self.begin_again(),
            false => (self.resting, self.probes) = (resting, probes),
        }
        Ok(report)
    }

    /// Resubmits records, unless Redis is still unavailable.
    async fn resubmit(&mut self, batch: Vec<Spooled>) -> Result<Report, SpoolError> {
        if self.doubtful
            && let Err(error) = self.carrier.probe().await
        {
            return Ok(Report { held: Some(error.to_string()), ..Report::default() });
        }
        let mut tally = self.tally(batch).await?;
        // Where nothing at all is carried out, it may be the whole Redis.
        if tally.done.is_empty() && tally.resting > 0 && tally.held.is_none() {
            tally.held = self.carrier.probe().await.err().map(|error| error.to_string());
        }
        self.doubtful = tally.held.is_some();
        self.settle(tally).await
    }

    /// Why a record rests alone; `None`: none does.
    pub fn resting(&self) -> Option<&str> {
        self.resting.why()
    }

    /// Whether producers have appended since the last call; true at the first.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub async fn has_changed(&self) -> Result<bool, SpoolError> {
        self.with(SpoolReader::has_changed).await
    }

    /// The books of the spool alone.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub async fn books(&self) -> Result<SpoolStats, SpoolError> {
        self.with(|reader| reader.books()).await
    }

    /// The books of the spool, with what waits counted.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub async fn stats(&self) -> Result<SpoolStats, SpoolError> {
        self.with(|reader| reader.stats()).await
    }

    /// Returns unused space to the disk.
    ///
    /// # Errors
    /// The spool keeps its size.
    pub async fn shrink(&self) -> Result<(), SpoolError> {
        self.with(|reader| reader.shrink()).await
    }

    /// Why a record is set aside for its age. Puts alone are: a message whose cancel was set aside would be delivered. When
    /// a record was spooled may be unreadable: 0.
    fn too_old(
        &self,
        record: &AnyRecord,
        spooled_at: UnixMillis,
        tried: Option<UnixMillis>,
        now: UnixMillis,
    ) -> Option<String> {
        let max = self.max_age.filter(|&max| spooled_at.get() > 0 && now.since(spooled_at) > max)?;
        let put = record.message().filter(|record| record.verb() == "put")?;
        let is_open = tried.is_some() || put.fate == Fate::Unknown;
        let stored = if is_open { ", and may be stored already" } else { "" };
        Some(format!("it has waited for longer than {max:?}{stored}"))
    }

    async fn tally(&mut self, batch: Vec<Spooled>) -> Result<Tally, SpoolError> {
        let mut tally = Tally::default();
        let (mut parts, mut fresh) = (Vec::new(), Vec::new());
        let now = delayq_service::host_now();
        for Spooled { seq, spooled_at, tried, record } in batch {
            match record {
                Err(why) => tally.rejected.push((seq, why)),
                Ok(record) if let Some(why) = self.too_old(&record, spooled_at, tried, now) => {
                    tally.rejected.push((seq, why));
                }
                Ok(AnyRecord::Message(record)) if self.resting.holds(&record) => {}
                Ok(AnyRecord::Group(record)) if self.resting.holds_group(&record.group) => {}
                Ok(record) => {
                    if tried.is_none() && matches!(record.verb(), "put" | "reschedule" | "shift_group") {
                        fresh.push(seq);
                    }
                    Part::add(&mut parts, seq, record, tried);
                }
            }
        }
        if !fresh.is_empty() {
            let fresh = fresh.clone();
            self.with(move |reader| reader.begin(&fresh)).await?;
        }
        for part in parts {
            self.carry_out(part, &mut tally).await;
        }
        tally.untried.retain(|seq| fresh.contains(seq));
        Ok(tally)
    }

    async fn carry_out(&mut self, part: Part, tally: &mut Tally) {
        let Self { carrier, resting, probes, .. } = self;
        match part {
            Part::Messages(numbers, writes) => {
                let settled = match tally.held {
                    None => carrier.carry_out(resting, &writes).await,
                    Some(_) => vec![Settle::Untried; writes.len()],
                };
                for ((seq, write), settle) in numbers.into_iter().zip(&writes).zip(settled) {
                    if let Settle::Rest(_, why) = &settle {
                        probes.note(seq, Some(&write.record.topic), why);
                    }
                    tally.note(seq, settle);
                }
            }
            Part::Group(seq, record, tried) => {
                let settle = match tally.held {
                    None if !resting.holds_group(&record.group) => {
                        carrier.change(resting, &record, tried).await
                    }
                    _ => Settle::Untried,
                };
                if let Settle::Rest(_, why) = &settle {
                    probes.note(seq, None, why);
                }
                tally.note(seq, settle);
            }
        }
    }

    async fn settle(&self, tally: Tally) -> Result<Report, SpoolError> {
        let Tally { sent, done, rejected, untried, held, .. } = tally;
        let (resubmitted, rejections) = (done.len() as u64, rejected.len() as u64);
        let report = Report { sent, resubmitted, rejected: rejections, held, ..Report::default() };
        self.with(move |reader| {
            if !done.is_empty() {
                reader.done(&done)?;
            }
            if !untried.is_empty() {
                reader.untried(&untried)?;
            }
            rejected.into_iter().try_for_each(|(seq, reason)| {
                tracing::error!(seq, reason, "a spooled record is rejected and set aside");
                reader.reject(seq, &reason)
            })
        })
        .await?;
        Ok(report)
    }

    /// Works with the reader on a thread that may block.
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SpoolReader) -> Result<T, SpoolError> + Send + 'static,
    ) -> Result<T, SpoolError> {
        let reader = Arc::clone(&self.reader);
        let worked = tokio::task::spawn_blocking(move || {
            // The database has rolled back what a panic left half done.
            work(&mut reader.lock().unwrap_or_else(PoisonError::into_inner))
        });
        worked.await.map_err(|_| SpoolError::Closed)?
    }
}

// === impl Tally ===

impl Tally {
    fn note(&mut self, seq: u64, settle: Settle) {
        self.sent += u64::from(settle != Settle::Untried);
        match settle {
            Settle::Done => self.done.push(seq),
            Settle::Reject(reason) => self.rejected.push((seq, reason)),
            Settle::Hold(fate, why) => {
                self.not_done(seq, fate);
                self.held.get_or_insert(why);
            }
            Settle::Rest(fate, _) => {
                self.not_done(seq, fate);
                self.resting += 1;
            }
            Settle::Untried => self.untried.push(seq),
        }
    }

    fn not_done(&mut self, seq: u64, fate: Fate) {
        if fate == Fate::NotApplied {
            self.untried.push(seq);
        }
    }
}
