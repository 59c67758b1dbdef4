//! The compensator's side of a spool: the waiting records, in order, and the outcomes.

use crate::clock::{self, Clocks, Heard, Moment};
use crate::error::SpoolError;
use crate::flag::Flag;
use crate::identity::Identity;
use crate::lock::Lock;
use crate::row::{note_group, rests};
use crate::settled::{Settled, no_longer_waits};
use crate::{encoding, file, lost};
use delayq_core::fate::Fate;
use delayq_core::record::RecordId;
use delayq_core::spool::{AnyRecord, GroupRecord};
use delayq_core::time::UnixMillis;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use std::path::{Path, PathBuf};

/// Waiting records, in the form that [`spooled`] reads.
const WAITING: &str = "SELECT seq, body, spooled_ms, boot, up_ms FROM waiting";

/// Maximum number of records of a cause that are tried again.
const OF_A_CAUSE: usize = 16;

/// The size at which a batch is full.
const BATCH_BYTES: usize = 16 << 20;

/// The spool for the compensator. Calls block on the disk.
#[derive(Debug)]
pub struct SpoolReader {
    connection: Connection,
    dir: PathBuf,
    path: PathBuf,
    identity: Identity,
    heard: Option<Heard>,
    seen: i64,
    /// The last cause of which records were tried again.
    cause: i64,
    flag: Flag,
    /// Held until the reader is dropped.
    _shared: Lock,
    /// With the holder's name.
    lease: Option<(Lock, String)>,
}

/// A waiting record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spooled {
    /// The number in the spool; numbers rise in the order of appending.
    pub seq: u64,
    /// Time of spooling. All times of the record are on this host's clock as set now.
    pub spooled_at: UnixMillis,
    /// The id by which Redis recognises a repeat. Unique; a retried record gets another id.
    pub id: RecordId,
    /// The record rests, or has to wait behind a record that does.
    pub rests: bool,
    /// The record itself rests since the last [`SpoolReader::end_rest`].
    pub is_resting: bool,
    /// The record, or why the bytes are invalid: reject those.
    pub record: Result<AnyRecord, String>,
}

/// A rejected record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The number in the spool.
    pub seq: u64,
    /// Time of spooling, on this host's clock.
    pub spooled_at: UnixMillis,
    /// Time of the rejection, on this host's clock.
    pub rejected_at: UnixMillis,
    /// Why.
    pub reason: String,
    /// A later record of the message was resubmitted since, and a retry would undo that.
    pub overtaken: bool,
    /// The record, or why the bytes are invalid.
    pub record: Result<AnyRecord, String>,
}

/// The outcome of a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    /// The record waits again.
    Waits,
    /// The record is overtaken, and stays aside.
    Overtaken,
    /// No rejected record has this number.
    Unknown,
}

/// The books and the size of a spool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpoolStats {
    /// Records ever appended.
    pub spooled: u64,
    /// Records that were resubmitted.
    pub replayed: u64,
    /// Rejected records.
    pub rejected: u64,
    /// Records that an operator discarded.
    pub discarded: u64,
    /// Waiting records.
    pub waiting: u64,
    /// Time at which the oldest waiting record was spooled, on this host's clock.
    pub oldest: Option<UnixMillis>,
    /// Size on disk, without free pages.
    pub bytes: u64,
}

// === impl SpoolStats ===

impl SpoolStats {
    /// True if the books balance: spooled = replayed + rejected + discarded + waiting.
    pub const fn balances(&self) -> bool {
        self.spooled == self.replayed + self.rejected + self.discarded + self.waiting
    }

    /// The age of the oldest waiting record; zero if none waits.
    pub fn oldest_age(&self) -> std::time::Duration {
        self.oldest.map_or_else(Default::default, |at| clock::now().since(at))
    }
}

// === impl SpoolReader ===

impl SpoolReader {
    /// Takes the lease on a folder and checks the whole file; `holder` names the owner to a second compensator.
    ///
    /// # Errors
    /// [`SpoolError::Held`] if another compensator has the lease; else the problem with the file.
    pub fn open(dir: &Path, holder: &str) -> Result<Self, SpoolError> {
        let lease = Lock::lease(dir, holder)?;
        Self::checked(dir, Some((lease, holder.to_owned())))
    }

    /// Opens an existing spool without the lease: to read the books, and to list, retry and discard records, but not to
    /// resubmit.
    ///
    /// # Errors
    /// [`SpoolError::Missing`] if there is none; else the problem with the file.
    pub fn open_beside(dir: &Path) -> Result<Self, SpoolError> {
        match file::is_there(dir) {
            true => Self::checked(dir, None),
            false => Err(SpoolError::Missing { path: dir.to_owned() }),
        }
    }

    /// Opens the folder again after [`has_moved`](Self::has_moved) reports other files. Records that wait in the files open
    /// until now are out of reach then.
    ///
    /// # Errors
    /// The folder cannot be opened; the open files stay open.
    pub fn follow_folder(&mut self) -> Result<(), SpoolError> {
        if let Err(moved) = self.identity.check()
            && !self.identity.can_reopen()
        {
            return Err(moved);
        }
        // Two locks of one process on one file exclude each other.
        let holder = self.lease.take().map(|(_, holder)| holder);
        let lease = holder.map(|holder| Lock::lease(&self.dir, &holder).map(|lock| (lock, holder)));
        *self = Self::checked(&self.dir, lease.transpose()?)?;
        Ok(())
    }

    /// Why other files took the place of the open ones; `None`: the folder still has the open files.
    pub fn has_moved(&self) -> Option<SpoolError> {
        self.identity.check().err()
    }

    fn checked(dir: &Path, lease: Option<(Lock, String)>) -> Result<Self, SpoolError> {
        let shared = Lock::share(dir)?;
        let flag = Flag::open(dir)?;
        let mut connection = file::open(dir)?;
        let path = dir.join(file::NAME);
        if let Some(why) = file::damage(&connection).map_err(|error| SpoolError::of(&path, &error))? {
            return Err(SpoolError::Damaged { path, why });
        }
        lost::note(&mut connection, &flag, &path)?;
        flag.renew(&mut connection)?;
        let identity = Identity::of(dir);
        Ok(Self {
            connection,
            dir: dir.to_owned(),
            path,
            identity,
            heard: None,
            seen: 0,
            cause: i64::MIN,
            flag,
            _shared: shared,
            lease,
        })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// True if other processes have appended since the last call, and at the first call. Costs a few microseconds.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn has_changed(&mut self) -> Result<bool, SpoolError> {
        let version = self.connection.query_row("PRAGMA data_version", [], |row| row.get(0));
        let version = version.map_err(self.of())?;
        Ok(std::mem::replace(&mut self.seen, version) != version)
    }

    /// The first `most` waiting records behind number `after` (0: from the first), in the order of appending: at least one,
    /// and fewer than `most` above 16 MiB together. The records stay until [`Self::note`] settles them.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn waiting(&self, after: u64, most: usize) -> Result<Vec<Spooled>, SpoolError> {
        let read = || {
            let clocks = Clocks::read(&self.connection, self.heard)?;
            let sql = format!("{WAITING} WHERE seq > ? ORDER BY seq LIMIT ?");
            let mut select = self.connection.prepare_cached(&sql)?;
            let any_rests = self.connection.prepare_cached("SELECT 1 FROM resting LIMIT 1")?.exists([])?;
            let mut resting = self.connection.prepare_cached("SELECT 1 FROM resting WHERE seq = ?")?;
            let (mut rows, mut batch, mut bytes) = (select.query(params![after, most])?, Vec::new(), 0);
            while bytes < BATCH_BYTES
                && let Some(row) = rows.next()?
            {
                bytes += row.get_ref(1)?.as_bytes().map_or(0, <[u8]>::len);
                let mut next = spooled(row, &clocks)?;
                if let (true, Ok(record)) = (any_rests, &next.record) {
                    next.rests = rests(&self.connection, record)?;
                    next.is_resting = next.rests && resting.exists([next.seq])?;
                }
                batch.push(next);
            }
            Ok(batch)
        };
        read().map_err(self.of())
    }

    /// Some of the resting records, to be tried again: a few of each cause, because most often one remedy mends all records
    /// of a cause. The next call has the next causes. `None`: the waiting records up to this number have changed, because an
    /// operator has discarded or retried a record.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn resting(&mut self, up_to: u64, most: usize) -> Result<Option<Vec<Spooled>>, SpoolError> {
        let mut cause = self.cause;
        let mut read = || {
            let again = "SELECT 1 FROM waiting_again a WHERE seq <= ?
                         AND NOT EXISTS (SELECT 1 FROM resting r WHERE r.seq = a.seq)";
            if self.connection.prepare_cached(again)?.exists([up_to])? {
                return Ok(None);
            }
            let mut next =
                self.connection.prepare_cached("SELECT min(cause) FROM resting WHERE cause > ?")?;
            let sql = "SELECT seq FROM resting WHERE cause = ? ORDER BY seq LIMIT ?";
            let mut some = self.connection.prepare_cached(sql)?;
            let mut seqs: Vec<u64> = Vec::new();
            while seqs.len() < most {
                let Some(found) = next.query_row([cause], |row| row.get::<_, Option<i64>>(0))? else {
                    cause = i64::MIN;
                    break;
                };
                cause = found;
                let few = OF_A_CAUSE.min(most - seqs.len());
                let found = some.query_map(params![cause, few], |row| row.get(0))?;
                seqs.extend(found.collect::<rusqlite::Result<Vec<u64>>>()?);
            }
            seqs.sort_unstable();
            let clocks = Clocks::read(&self.connection, self.heard)?;
            let mut select = self.connection.prepare_cached(&format!("{WAITING} WHERE seq = ?"))?;
            let found =
                seqs.iter().map(|seq| select.query_row([seq], |row| spooled(row, &clocks)).optional());
            found.collect::<rusqlite::Result<Option<Vec<_>>>>()
        };
        let found = read().map_err(self.of())?;
        self.cause = cause;
        Ok(found)
    }

    /// The number of the last waiting record; 0: none waits.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn last(&self) -> Result<u64, SpoolError> {
        let last = "SELECT coalesce(max(seq), 0) FROM waiting";
        self.connection.query_row(last, [], |row| row.get(0)).map_err(self.of())
    }

    /// Ends the rest of all records.
    ///
    /// # Errors
    /// All resting records still rest.
    pub fn end_rest(&mut self) -> Result<(), SpoolError> {
        let any = || self.connection.prepare_cached("SELECT 1 FROM resting LIMIT 1")?.exists([]);
        match any().map_err(self.of())? {
            true => self.change(|change| change.execute("DELETE FROM resting", []).map(drop)),
            false => Ok(()),
        }
    }

    /// Notes the outcomes of records. Safe to repeat.
    ///
    /// # Errors
    /// Nothing is noted.
    pub fn note(&mut self, settled: &Settled) -> Result<(), SpoolError> {
        let (now, heard) = (Moment::now(), self.heard);
        self.change(|change| {
            heard.map_or(Ok(()), |heard| clock::note(change, heard))?;
            settled.note(change, now)
        })?;
        self.lower_flag();
        Ok(())
    }

    /// Notes that a waiting change of a group may be applied from now on, or that the change was not applied. Redis
    /// recognises no repeat of such a change.
    ///
    /// # Errors
    /// Nothing is noted: do not try the change.
    pub fn note_fate(&mut self, seq: u64, fate: Fate) -> Result<(), SpoolError> {
        let heard = self.heard;
        self.change(|change| {
            let clocks = Clocks::read(change, heard)?;
            let found = change.query_row(&format!("{WAITING} WHERE seq = ?"), [seq], |row| {
                Ok((record(row.get_ref(1)?), clocks.set_since(&moment(row, 2)?)))
            });
            let Some((Ok(AnyRecord::Group(record)), set_ms)) = found.optional()? else { return Ok(()) };
            // As the clock was set when the record was spooled.
            let record = GroupRecord { fate, tried_at: clocks.now.wall.set_by(-set_ms), ..record };
            let body = encoding::encode(&AnyRecord::Group(record));
            change.execute("UPDATE waiting SET body = ? WHERE seq = ?", params![body, seq]).map(drop)
        })
    }

    /// True if the oldest waiting record was appended before this host was booted.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn spans_boots(&self) -> Result<bool, SpoolError> {
        let oldest = "SELECT spooled_ms, boot, up_ms FROM waiting ORDER BY seq LIMIT 1";
        let boot = self.connection.query_row(oldest, [], |row| Ok(moment(row, 0)?.boot)).optional();
        Ok(boot.map_err(self.of())?.is_some_and(|boot| boot != Moment::now().boot))
    }

    /// Takes in the time of Redis's clock, by which records of earlier boots are dated.
    pub fn hear(&mut self, heard: Heard) {
        self.heard = Some(heard);
    }

    /// Notes the time of Redis's clock for the next boot. [`Self::note`] does so too.
    ///
    /// # Errors
    /// Nothing is noted.
    pub fn note_clock(&mut self) -> Result<(), SpoolError> {
        let heard = self.heard;
        heard.map_or(Ok(()), |heard| self.change(|change| clock::note(change, heard)))
    }

    /// The first `most` rejected records, from `after` on (0: from the first).
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn rejected(&self, after: u64, most: usize) -> Result<Vec<Rejected>, SpoolError> {
        let read = || {
            let sql =
                "SELECT seq, spooled_ms, rejected_ms, reason, overtaken, body FROM rejected WHERE seq > ?
                       ORDER BY seq LIMIT ?";
            self.connection
                .prepare_cached(sql)?
                .query_map(params![after, most], rejected)?
                .collect::<rusqlite::Result<_>>()
        };
        read().map_err(self.of())
    }

    /// Lets a rejected record wait again, with the fate at spooling, unless the record is overtaken. `force` retries an
    /// overtaken record too, as if never tried, so that a topic that refuses repeats accepts the record, perhaps a second
    /// time. A row that only names lost records is unknown.
    ///
    /// # Errors
    /// The record stays rejected, or producers may not see that the record waits: repeat the call.
    pub fn retry(&mut self, seq: u64, force: bool) -> Result<Retried, SpoolError> {
        let retried = self.change(|change| {
            let sql = "SELECT body, overtaken FROM rejected WHERE seq = ? AND body != x''";
            let read = |row: &Row<'_>| Ok((record(row.get_ref(0)?), number(row.get_ref(1)?) > 0));
            let found = match change.query_row(sql, [seq], read).optional()? {
                None => return Ok(Retried::Unknown),
                Some((_, true)) if !force => return Ok(Retried::Overtaken),
                Some((found, _)) => found,
            };
            // The waiting time begins now: the age may be why the record was set aside.
            let sql = "INSERT INTO waiting (seq, key, spooled_ms, boot, up_ms, body)
                       SELECT seq, key, ?, ?, ?, body FROM rejected WHERE seq = ?";
            let now = Moment::now();
            change.execute(sql, params![now.wall.get(), now.boot, now.up_ms, seq])?;
            change.execute("INSERT INTO waiting_again SELECT seq, key FROM rejected WHERE seq = ?", [seq])?;
            if let Ok(record) = found {
                note_group(change, seq, &record)?;
                if force {
                    let body = encoding::encode(&record.never_tried());
                    change.execute("UPDATE waiting SET body = ? WHERE seq = ?", params![body, seq])?;
                }
            }
            change.execute("DELETE FROM rejected WHERE seq = ?", [seq])?;
            change.execute("UPDATE books SET rejected = rejected - 1", [])?;
            Ok(Retried::Waits)
        })?;
        self.flag.renew(&mut self.connection)?;
        Ok(retried)
    }

    /// Discards a record, waiting or rejected. Returns true if the record existed. A record under way may be carried out all
    /// the same.
    ///
    /// # Errors
    /// The record stays.
    pub fn discard(&mut self, seq: u64) -> Result<bool, SpoolError> {
        let discarded = self.change(|change| {
            let waited = no_longer_waits(change, seq, seq)?;
            let rejected = change.execute("DELETE FROM rejected WHERE seq = ?", [seq])?;
            let sql = "UPDATE books SET discarded = discarded + ?, rejected = rejected - ?";
            change.execute(sql, [waited + rejected, rejected])?;
            Ok(waited + rejected > 0)
        })?;
        self.lower_flag();
        Ok(discarded)
    }

    /// The books, with the waiting records counted: reads every page of theirs, for checks.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn stats(&self) -> Result<SpoolStats, SpoolError> {
        self.read_books("(SELECT count(*) FROM waiting)")
    }

    /// The books alone, which say how many have to wait: for scrapes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn books(&self) -> Result<SpoolStats, SpoolError> {
        self.read_books("max(0, spooled - replayed - rejected - discarded)")
    }

    fn read_books(&self, waiting: &str) -> Result<SpoolStats, SpoolError> {
        let sql = format!(
            "SELECT spooled, replayed, rejected, discarded, {waiting},
             (SELECT spooled_ms FROM waiting ORDER BY seq LIMIT 1) FROM books"
        );
        let read = self.connection.query_row(&sql, [], |row| {
            let count = |column| row.get_ref(column).map(number);
            Ok(SpoolStats {
                spooled: count(0)?,
                replayed: count(1)?,
                rejected: count(2)?,
                discarded: count(3)?,
                waiting: count(4)?,
                // A record without a time does not count for the oldest.
                oldest: Some(count(5)?).filter(|&ms| ms > 0).map(UnixMillis::new),
                bytes: 0,
            })
        });
        let stats = read.map_err(self.of())?;
        Ok(SpoolStats { bytes: file::used_bytes(&self.connection, &self.path)?, ..stats })
    }

    /// Returns free pages to the disk, and empties the log.
    ///
    /// # Errors
    /// Nothing is returned.
    pub fn shrink(&self) -> Result<(), SpoolError> {
        self.connection.execute_batch("PRAGMA incremental_vacuum").map_err(self.of())?;
        file::empty_log(&self.connection, &self.path)
    }

    /// Clears the flag if nothing waits. If that fails, the flag stays set, which costs producers time only.
    fn lower_flag(&mut self) {
        let any = self
            .connection
            .prepare_cached("SELECT 1 FROM waiting LIMIT 1")
            .and_then(|mut any| any.exists([]));
        if let Ok(false) = any {
            let _ = self.flag.renew(&mut self.connection);
        }
    }

    fn change<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, SpoolError> {
        let Self { connection, path, .. } = self;
        let change = || {
            let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let result = work(&change)?;
            change.commit()?;
            Ok(result)
        };
        change().map_err(|error| SpoolError::of(path, &error))
    }

    fn of(&self) -> impl Fn(rusqlite::Error) -> SpoolError + '_ {
        |error| SpoolError::of(&self.path, &error)
    }
}

fn spooled(row: &Row<'_>, clocks: &Clocks) -> rusqlite::Result<Spooled> {
    let spooled = moment(row, 2)?;
    let (seq, body, set_ms) = (row.get(0)?, row.get_ref(1)?, clocks.set_since(&spooled));
    Ok(Spooled {
        seq,
        spooled_at: spooled.wall.set_by(set_ms),
        id: id_of(seq, spooled, body.as_bytes().unwrap_or_default()),
        rests: false,
        is_resting: false,
        record: record(body).map(|record| record.clock_set_by(set_ms)),
    })
}

/// No two spools append the same bytes under one number at one moment of one boot.
fn id_of(seq: u64, spooled: Moment, body: &[u8]) -> RecordId {
    let Moment { wall, boot, up_ms } = spooled;
    let numbers = [seq, wall.get(), boot.cast_unsigned(), up_ms.cast_unsigned()].map(u64::to_be_bytes);
    RecordId::of([b"spool", numbers.as_flattened(), body])
}

/// A time and the place within a boot, in three columns.
fn moment(row: &Row<'_>, first: usize) -> rusqlite::Result<Moment> {
    let signed = |column| row.get_ref(column).map(|value| value.as_i64().unwrap_or_default());
    let wall = UnixMillis::new(number(row.get_ref(first)?));
    Ok(Moment { wall, boot: signed(first + 1)?, up_ms: signed(first + 2)? })
}

fn rejected(row: &Row<'_>) -> rusqlite::Result<Rejected> {
    Ok(Rejected {
        seq: row.get(0)?,
        spooled_at: UnixMillis::new(number(row.get_ref(1)?)),
        rejected_at: UnixMillis::new(number(row.get_ref(2)?)),
        reason: row.get_ref(3)?.as_str().unwrap_or("").to_owned(),
        overtaken: number(row.get_ref(4)?) > 0,
        record: record(row.get_ref(5)?),
    })
}

fn record(body: ValueRef<'_>) -> Result<AnyRecord, String> {
    let bytes = body.as_blob().map_err(|_| format!("the body is {}, not bytes", body.data_type()))?;
    encoding::decode(bytes).map_err(|error| error.to_string())
}

/// A column that should be a number: SQLite does not enforce column types, so another program may have written
/// anything, which reads as 0.
fn number(value: ValueRef<'_>) -> u64 {
    value.as_i64().ok().and_then(|number| number.try_into().ok()).unwrap_or(0)
}
