//! The files of a spool: opening the database, the schema, and the size.

use crate::clock;
use crate::error::SpoolError;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

pub(crate) const NAME: &str = "spool.db";

/// `dqsp`: distinguishes a spool from any other SQLite database.
const APPLICATION_ID: i64 = 0x6471_7370;

/// The schema that this version writes, and the newest it reads.
const FORMAT: i64 = 1;

/// Prefix of the folder for a salvage's new database, until the new database takes the place of the damaged one.
pub(crate) const SALVAGED: &str = "salvaged-";

/// The mode bits for users that are neither the owner nor in the group.
const STRANGERS: u32 = 0o007;

/// Longest pause between two tries to lock the database, and number of tries: together half a minute. Each transaction
/// takes milliseconds, but hundreds of processes may share a spool. SQLite's own pauses grow to 100 ms, and meanwhile a
/// busy process locks the database again and again.
const PAUSE_MS: u64 = 10;
const TRIES: i32 = 3000;

/// The tables. The order of creation fixes the root pages, by which a salvage reads.
///
/// `key` finds the records of a message, without an index (see `keys`); `waiting_again` has the keys of records that an
/// operator let wait again, under old numbers. `waiting_group` finds the waiting records of a group. Settled records are
/// deleted from all of these tables together, by ranges of numbers, which is faster than a trigger. `books` counts the rows
/// that were deleted. `boot` and `up_ms` date a row by the time since a boot of this host, and `clocks` has the time of
/// Redis's clock at each boot (see `clock`). A rejected record is `overtaken` once a later record of the message was
/// resubmitted. `resting` has the waiting records that a compensator has let rest, with keys; records that rest behind no
/// other also have a cause.
const SCHEMA: &str = "
    CREATE TABLE waiting (seq INTEGER PRIMARY KEY AUTOINCREMENT, key INTEGER NOT NULL,
        spooled_ms INTEGER NOT NULL, boot INTEGER NOT NULL, up_ms INTEGER NOT NULL, body BLOB NOT NULL);
    CREATE TABLE rejected (seq INTEGER PRIMARY KEY, key INTEGER NOT NULL, group_key INTEGER,
        overtaken INTEGER NOT NULL DEFAULT 0, spooled_ms INTEGER NOT NULL, rejected_ms INTEGER NOT NULL,
        reason TEXT NOT NULL, body BLOB NOT NULL);
    CREATE TABLE books (one INTEGER PRIMARY KEY CHECK (one = 1), spooled INTEGER NOT NULL,
        replayed INTEGER NOT NULL, rejected INTEGER NOT NULL, discarded INTEGER NOT NULL);
    CREATE TABLE waiting_again (seq INTEGER PRIMARY KEY, key INTEGER NOT NULL);
    CREATE INDEX waiting_again_key ON waiting_again (key);
    CREATE TABLE waiting_group (seq INTEGER PRIMARY KEY, key INTEGER NOT NULL);
    CREATE INDEX waiting_group_key ON waiting_group (key);
    CREATE INDEX rejected_key ON rejected (key);
    CREATE INDEX rejected_group_key ON rejected (group_key);
    CREATE TABLE clocks (boot INTEGER PRIMARY KEY, redis_ms INTEGER NOT NULL);
    CREATE TABLE resting (seq INTEGER PRIMARY KEY, key INTEGER NOT NULL, group_key INTEGER, cause INTEGER);
    CREATE INDEX resting_key ON resting (key);
    CREATE INDEX resting_group_key ON resting (group_key) WHERE group_key IS NOT NULL;
    CREATE INDEX resting_cause ON resting (cause, seq) WHERE cause IS NOT NULL;
    INSERT INTO books VALUES (1, 0, 0, 0, 0);
    PRAGMA application_id = 1685156720;
    PRAGMA user_version = 1;
";

pub(crate) const ISSUED: &str = "SELECT seq FROM sqlite_sequence WHERE name = 'waiting'";

/// Creates both the folder and the database if missing.
pub(crate) fn open(dir: &Path) -> Result<Connection, SpoolError> {
    make_folder(dir)?;
    let path = dir.join(NAME);
    let half = salvaged(dir).map_err(|error| SpoolError::folder(dir, &error))?;
    if half.iter().any(|made| made.join(NAME).exists()) {
        return Err(SpoolError::Damaged { path, why: "a salvage of it was cut off".to_owned() });
    }
    // Only one process at a time may decide that a log is orphaned.
    let folder = lock_folder(dir)?;
    if !path.exists() {
        set_orphans_aside(dir)?;
    }
    let connection = connect(dir, &path);
    drop(folder);
    connection
}

fn connect(dir: &Path, path: &Path) -> Result<Connection, SpoolError> {
    let of = |error: rusqlite::Error| SpoolError::of(path, &error);
    let mut connection = Connection::open(path).map_err(of)?;
    connection.busy_handler(Some(wait_for_lock)).map_err(of)?;
    // Checked before anything is set: a file of another kind is left unchanged.
    let is_new = !is_spool(&connection, path)?;
    // SQLite gives its log the database's current mode and owner.
    shut(path, if is_new { 0o077 } else { STRANGERS })?;
    give_to_owner_of(dir, path)?;
    if is_new {
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(of)?;
    }
    connection.pragma_update(None, "journal_mode", "WAL").map_err(of)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(of)?;
    if is_new {
        let create = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(of)?;
        create.execute_batch(SCHEMA).map_err(of)?;
        create.commit().map_err(of)?;
        sync_folder(dir)?;
    }
    Ok(connection)
}

/// False after too long a wait.
fn wait_for_lock(tries: i32) -> bool {
    thread::sleep(Duration::from_millis(PAUSE_MS.min(tries.unsigned_abs().into())));
    tries < TRIES
}

/// Until the file is dropped.
fn lock_folder(dir: &Path) -> Result<File, SpoolError> {
    let folder = File::open(dir).and_then(|folder| folder.lock().map(|()| folder));
    folder.map_err(|error| SpoolError::folder(dir, &error))
}

/// A new database would use the pages in the log of a deleted database.
fn set_orphans_aside(dir: &Path) -> Result<(), SpoolError> {
    let stamp = clock::now().get();
    for log in ["-wal", "-shm"] {
        let (from, to) = (format!("{NAME}{log}"), format!("{NAME}.orphan-{stamp}{log}"));
        match fs::rename(dir.join(&from), dir.join(to)) {
            Ok(()) => {
                tracing::error!(folder = %dir.display(), file = from, "set aside a log without its database");
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(SpoolError::folder(dir, &error)),
        }
    }
    Ok(())
}

/// Counts an unfinished salvage too.
pub(crate) fn is_there(dir: &Path) -> bool {
    dir.join(NAME).exists() || salvaged(dir).is_ok_and(|half| !half.is_empty())
}

pub(crate) fn salvaged(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let folders = fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path()));
    let folders: Vec<PathBuf> = folders.collect::<Result<_, _>>()?;
    let is_one =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(SALVAGED));
    Ok(folders.into_iter().filter(is_one).collect())
}

/// False for an empty database.
fn is_spool(connection: &Connection, path: &Path) -> Result<bool, SpoolError> {
    let number = |pragma: &str| {
        let read = connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0));
        read.map_err(|error| SpoolError::of(path, &error))
    };
    let (application, format, schema) =
        (number("application_id")?, number("user_version")?, number("schema_version")?);
    match (application, format) {
        (0, 0) if schema == 0 => Ok(false),
        (APPLICATION_ID, FORMAT) => Ok(true),
        (APPLICATION_ID, found) => Err(SpoolError::Newer { path: path.to_owned(), found, known: FORMAT }),
        _ => Err(SpoolError::NotASpool {
            path: path.to_owned(),
            why: format!("the file is another program's database (application id {application})"),
        }),
    }
}

/// 0 before the first record.
pub(crate) fn issued(connection: &Connection) -> rusqlite::Result<u64> {
    let issued = connection.query_row(ISSUED, [], |row| row.get(0)).optional();
    issued.map(Option::unwrap_or_default)
}

pub(crate) fn issue(change: &Transaction<'_>, last: u64) -> rusqlite::Result<()> {
    change.execute("DELETE FROM sqlite_sequence WHERE name = 'waiting'", [])?;
    change.execute("INSERT INTO sqlite_sequence VALUES ('waiting', ?)", [last]).map(drop)
}

/// Every page can be read.
pub(crate) fn is_sound(path: &Path) -> Result<bool, SpoolError> {
    let checked = Connection::open(path).map_err(|error| SpoolError::of(path, &error)).and_then(|found| {
        let damage = damage(&found).map_err(|error| SpoolError::of(path, &error))?;
        Ok(damage.is_none() && is_spool(&found, path)?)
    });
    match checked {
        Err(SpoolError::Damaged { .. } | SpoolError::NotASpool { .. }) => Ok(false),
        checked => checked,
    }
}

pub(crate) fn damage(connection: &Connection) -> rusqlite::Result<Option<String>> {
    match connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)) {
        Ok(found) if found == "ok" => Ok(None),
        Ok(found) => Ok(Some(found)),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
            Ok(Some(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// Syncs a folder and the parent: the name of a new file, or of the folder, survives a power cut only then.
pub(crate) fn sync_folder(dir: &Path) -> Result<(), SpoolError> {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    for folder in [Some(dir), parent].into_iter().flatten() {
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| SpoolError::folder(folder, &error))?;
    }
    Ok(())
}

/// The spool's size: the pages in use, and the log.
pub(crate) fn used_bytes(connection: &Connection, path: &Path) -> Result<u64, SpoolError> {
    let number = |pragma: &str| {
        let read = connection.prepare_cached(&format!("PRAGMA {pragma}"));
        let read = read.and_then(|mut read| read.query_row([], |row| row.get::<_, u64>(0)));
        read.map_err(|error| SpoolError::of(path, &error))
    };
    let pages = number("page_count")?.saturating_sub(number("freelist_count")?);
    let log = fs::metadata(log_of(path)).map_or(0, |log| log.len());
    Ok(pages * number("page_size")? + log)
}

/// Unless other readers or writers still need the log.
pub(crate) fn empty_log(connection: &Connection, path: &Path) -> Result<(), SpoolError> {
    let done = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).optional();
    done.map(drop).map_err(|error| SpoolError::of(path, &error))
}

pub(crate) fn log_of(path: &Path) -> PathBuf {
    path.with_file_name(format!("{NAME}-wal"))
}

/// Creates both the folder and the file if missing.
pub(crate) fn open_beside(dir: &Path, name: &str) -> Result<(File, PathBuf), SpoolError> {
    make_folder(dir)?;
    let path = dir.join(name);
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = opened.map_err(|error| SpoolError::folder(dir, &error))?;
    shut(&path, STRANGERS)?;
    give_to_owner_of(dir, &path)?;
    Ok((file, path))
}

/// A folder created here is private to its user. An existing one keeps the mode that the operator chose.
fn make_folder(dir: &Path) -> Result<(), SpoolError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| SpoolError::folder(dir, &error))
}

/// Removes access to a file, by its path: closing a second handle would release SQLite's locks.
fn shut(path: &Path, access: u32) -> Result<(), SpoolError> {
    let mode = fs::metadata(path).map_err(|error| SpoolError::folder(path, &error))?.permissions().mode();
    match fs::set_permissions(path, Permissions::from_mode(mode & !access)) {
        // Users share a folder by its group: only the owner's process can do this.
        Err(error) if error.kind() != ErrorKind::PermissionDenied => Err(SpoolError::folder(path, &error)),
        _ => Ok(()),
    }
}

/// Gives a file that root has made to the owner of the folder: an operator's `sudo delayq spool show` must not lock the
/// services out.
fn give_to_owner_of(dir: &Path, path: &Path) -> Result<(), SpoolError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let of = |error: std::io::Error| SpoolError::folder(path, &error);
    let (folder, file) = (fs::metadata(dir).map_err(of)?, fs::metadata(path).map_err(of)?);
    if file.uid() != 0 || folder.uid() == 0 {
        return Ok(());
    }
    chown(path, Some(folder.uid()), Some(folder.gid())).map_err(of)
}
