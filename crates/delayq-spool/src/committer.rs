//! The thread of a process that writes to the spool: records that wait at the same time share a commit.

use crate::clock::Moment;
use crate::error::SpoolError;
use crate::flag::Flag;
use crate::identity::Identity;
use crate::keys::Keys;
use crate::lock::Lock;
use crate::row::{Chosen, Rows, SpoolRow, WaitingRecords};
use crate::{file, lost};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::thread;
use tokio::sync::{mpsc, oneshot};

/// Maximum bytes of one commit, so that no caller waits long for others.
const COMMIT_BYTES: usize = 16 * 1024 * 1024;

/// Maximum times that a commit looks in vain for a caller on the way: some microseconds.
const LOOKS: u32 = 32;

pub(crate) struct Append {
    pub(crate) rows: Rows,
    /// Appends only records that must not overtake a waiting record.
    pub(crate) only_behind: bool,
    pub(crate) answer: oneshot::Sender<AppendAnswers>,
}

/// True if appended.
pub(crate) type AppendAnswers = Vec<Result<bool, SpoolError>>;

pub(crate) struct Committer {
    connection: Connection,
    dir: PathBuf,
    path: PathBuf,
    identity: Identity,
    max_bytes: u64,
    flag: Flag,
    keys: Keys,
    /// Held while the thread runs.
    _shared: Lock,
}

struct BytesLeft {
    left: u64,
    max_bytes: u64,
}

// === impl Append ===

impl Append {
    /// Compared with the records that wait now.
    fn has_work(&self, known: &WaitingRecords<'_>) -> rusqlite::Result<bool> {
        for row in self.rows.iter() {
            if self.wants(row, known, &Chosen::new(false))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// As far as there is room.
    fn choose<'a>(
        &'a self,
        known: &WaitingRecords<'_>,
        room: &mut BytesLeft,
        chosen: &mut Chosen<'a>,
    ) -> rusqlite::Result<AppendAnswers> {
        // The refusals by message: later records of the message are refused too, for no write overtakes an older one.
        let mut refused: HashMap<i64, SpoolError> = HashMap::new();
        let mut answers = Vec::with_capacity(self.rows.len());
        for row in self.rows.iter() {
            let taken = match refused.get(&row.key()) {
                _ if !self.wants(row, known, chosen)? => Ok(None),
                Some(error) => Err(error.clone()),
                None => self.rows.body(row).and_then(|body| room.take(row).map(|()| Some(body))),
            };
            match taken {
                Ok(Some(body)) => chosen.push(row, body),
                Ok(None) => {}
                Err(ref error) => drop(refused.insert(row.key(), error.clone())),
            }
            answers.push(taken.map(|body| body.is_some()));
        }
        Ok(answers)
    }

    fn wants(
        &self,
        row: &SpoolRow,
        known: &WaitingRecords<'_>,
        chosen: &Chosen<'_>,
    ) -> rusqlite::Result<bool> {
        Ok(!self.only_behind || row.has_to_wait(known, chosen)?)
    }
}

// === impl Committer ===

impl Committer {
    pub(crate) fn open(dir: &Path, max_bytes: u64) -> Result<Self, SpoolError> {
        Self::with(dir, max_bytes, Flag::open(dir)?)
    }

    fn with(dir: &Path, max_bytes: u64, flag: Flag) -> Result<Self, SpoolError> {
        let shared = Lock::share(dir)?;
        let mut connection = file::open(dir)?;
        let path = dir.join(file::NAME);
        lost::note(&mut connection, &flag, &path)?;
        flag.renew(&mut connection)?;
        // The log, which duplicates what the database takes, may use a quarter of the bound.
        let pages = (max_bytes / 4 / 4096).clamp(16, 1000);
        let set = connection.pragma_update(None, "wal_autocheckpoint", pages);
        set.map_err(|error| SpoolError::of(&path, &error))?;
        // The last transaction has made the log.
        let (identity, dir) = (Identity::of(dir), dir.to_owned());
        Ok(Self { connection, dir, path, identity, max_bytes, flag, keys: Keys::default(), _shared: shared })
    }

    /// Other files may have taken the place of the open ones.
    fn follow_folder(&mut self) -> Result<(), SpoolError> {
        let Err(moved) = self.identity.check() else { return Ok(()) };
        tracing::error!("{moved}");
        if !self.identity.can_reopen() {
            return Err(moved);
        }
        self.flag.reopen(&self.dir)?;
        *self = Self::with(&self.dir, self.max_bytes, self.flag.clone())?;
        Ok(())
    }

    pub(crate) fn flag(&self) -> &Flag {
        &self.flag
    }

    /// Ends when the last [`crate::SpoolWriter`] is dropped and all accepted records are written.
    pub(crate) fn run(mut self, mut queue: mpsc::Receiver<Append>) {
        let mut usual = 0;
        while let Some(first) = queue.blocking_recv() {
            let appends = gather(first, &mut queue, usual);
            usual = appends.len();
            let answers = self.commit(&appends).unwrap_or_else(|error| {
                appends.iter().map(|append| vec![Err(error.clone()); append.rows.len()]).collect()
            });
            for (append, answers) in appends.into_iter().zip(answers) {
                // The caller may be gone: appended records are resubmitted all the same.
                let _ = append.answer.send(answers);
            }
        }
    }

    /// Writes all appends in one transaction; no caller gets an answer before the commit is on disk.
    fn commit(&mut self, appends: &[Append]) -> Result<Vec<AppendAnswers>, SpoolError> {
        // Asked first without a lock: most writes have nothing to wait for.
        if !self.has_work(appends).map_err(|error| SpoolError::of(&self.path, &error))? {
            return Ok(appends.iter().map(|append| vec![Ok(false); append.rows.len()]).collect());
        }
        self.follow_folder()?;
        let written = self.write(appends);
        // A flag that stays set without a waiting record costs every write a query. A locked-out transaction has set
        // nothing.
        if matches!(&written, Err(error) if !matches!(error, SpoolError::Busy { .. })) && self.flag.is_set() {
            let _ = self.flag.renew(&mut self.connection);
        }
        written
    }

    fn has_work(&mut self, appends: &[Append]) -> rusqlite::Result<bool> {
        if appends.iter().any(|append| !append.only_behind) {
            return Ok(true);
        }
        self.keys.read_on(&self.connection)?;
        let known = WaitingRecords { connection: &self.connection, keys: &self.keys };
        for append in appends {
            if append.has_work(&known)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn write(&mut self, appends: &[Append]) -> Result<Vec<AppendAnswers>, SpoolError> {
        let Self { connection, path, identity, flag, keys, max_bytes, .. } = self;
        let of = |error: rusqlite::Error| SpoolError::of(path, &error);
        let wanted: u64 = appends.iter().flat_map(|append| append.rows.iter()).map(SpoolRow::cost).sum();
        let mut transaction = begin(connection).map_err(of)?;
        let mut room = BytesLeft::of(&transaction, path, *max_bytes)?;
        if room.left < wanted {
            transaction.rollback().map_err(of)?;
            file::empty_log(connection, path)?;
            transaction = begin(connection).map_err(of)?;
            room = BytesLeft::of(&transaction, path, *max_bytes)?;
        }
        let is_asked = appends.iter().any(|append| append.only_behind);
        if is_asked {
            keys.read_on(&transaction).map_err(of)?;
        }
        let known = WaitingRecords { connection: &transaction, keys };
        let mut chosen = Chosen::new(is_asked);
        let choose = |append| Append::choose(append, &known, &mut room, &mut chosen);
        let answers: Vec<AppendAnswers> =
            appends.iter().map(choose).collect::<rusqlite::Result<_>>().map_err(of)?;
        if chosen.len() == 0 {
            return Ok(answers);
        }
        flag.set()?;
        let last = chosen.append(&transaction, Moment::now()).map_err(of)?;
        let booked = transaction.prepare_cached("UPDATE books SET spooled = spooled + ?");
        booked.and_then(|mut booked| booked.execute([chosen.len()])).map_err(of)?;
        transaction.commit().map_err(of)?;
        // The folder moved after the check: the records may be where no compensator reads.
        identity.check().map_err(|moved| SpoolError::Io { path: path.clone(), why: moved.to_string() })?;
        flag.note_last(last.cast_unsigned());
        Ok(answers)
    }
}

/// The appends that wait at the same time. Callers that were answered together come again one after the other: after a
/// commit of `usual` appends, the next commit waits for as many, as long as they keep coming.
fn gather(first: Append, queue: &mut mpsc::Receiver<Append>, usual: usize) -> Vec<Append> {
    let (mut bytes, mut appends, mut next, mut looks) = (0, Vec::with_capacity(usual), Some(first), 0);
    while bytes < COMMIT_BYTES {
        match next {
            Some(append) => {
                bytes += append.rows.bytes();
                appends.push(append);
                looks = 0;
            }
            None if appends.len() < usual && looks < LOOKS => {
                looks += 1;
                thread::yield_now();
            }
            None => break,
        }
        next = queue.try_recv().ok();
    }
    appends
}

fn begin(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

// === impl BytesLeft ===

impl BytesLeft {
    /// Within a transaction, which excludes other writers.
    fn of(transaction: &Transaction<'_>, path: &Path, max_bytes: u64) -> Result<Self, SpoolError> {
        let used = file::used_bytes(transaction, path)?;
        Ok(Self { left: max_bytes.saturating_sub(used), max_bytes })
    }

    fn take(&mut self, row: &SpoolRow) -> Result<(), SpoolError> {
        match self.left.checked_sub(row.cost()) {
            Some(left) => self.left = left,
            None => {
                let bytes = self.max_bytes.saturating_sub(self.left);
                return Err(SpoolError::Full { bytes, max_bytes: self.max_bytes });
            }
        }
        Ok(())
    }
}
