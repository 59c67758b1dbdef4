//! The data folder of `delayq up`: layout, lock and access rights.
//!
//! ```text
//! lock              held while a process uses the folder
//! delayq.toml       the configuration for every command: delayq --config FOLDER/delayq.toml …
//! ports.json        the ports, kept over restarts
//! children.json     process id and start time of the servers, by which the next start finds them
//! redis.sock        the socket of Redis, redis-a.sock and so on if there are several; redis.conf keeps secrets off the
//!                   command lines
//! redis.password    Redis's password, if the path of redis.sock would be too long and Redis listens on a port
//! etcd*.pem         the certificate that etcd and the clients of etcd show each other
//! redis/  etcd/     server data; of a Redis Cluster, redis/1, redis/2 and so on; of several Redises, redis/a, redis/b
//! spool/            puts that could not reach Redis
//! forwarded/        files of forwarded messages, by default delivered.ndjson; no template of a name leaves this folder
//! logs/             redis.log, etcd.log, delayq.log
//! ```

use crate::failure::{FILE, FOLDER_IN_USE, file};
use delayq_service::Fault;
use rustix::fs::Mode;
use rustix::process::{geteuid, umask};
use std::fs::{File, Permissions, TryLockError};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Folder for messages forwarded into files, apart from the files of `up`.
const FORWARDED: &str = "forwarded";
/// Mode bits that give access to anybody but the owner.
const OTHERS: u32 = 0o077;

/// The folder, locked.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    /// The lock lasts as long as the file is open.
    _lock: File,
}

// === impl DataFolder ===

impl DataFolder {
    /// Creates the folder if missing, closes the folder to other users, and locks the folder. From here on, files made
    /// by this process and child processes are open to this user alone.
    ///
    /// # Errors
    /// The folder cannot be written, belongs to another user, is open to other users and not empty, or is in
    /// use.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        umask(Mode::from_raw_mode(OTHERS));
        std::fs::create_dir_all(path).map_err(|error| file(path, "make the folder", error))?;
        close_to_others(path)?;
        for inner in ["redis", "etcd", "spool", "logs", FORWARDED] {
            let inner = path.join(inner);
            std::fs::create_dir_all(&inner).map_err(|error| file(&inner, "make the folder", error))?;
        }
        let path = path.canonicalize().map_err(|error| file(path, "find", error))?;
        let lock_path = path.join("lock");
        let lock = File::create(&lock_path).map_err(|error| file(&lock_path, "write", error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                Err(Fault::new(&FOLDER_IN_USE, format!("{} is in use", path.display())))
            }
            Err(TryLockError::Error(error)) => Err(file(&lock_path, "lock", error)),
        }
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file or folder inside the folder.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The configuration for every command.
    pub fn configuration(&self) -> PathBuf {
        self.join("delayq.toml")
    }

    /// The folder for files of forwarded messages.
    pub fn forwarded(&self) -> PathBuf {
        self.join(FORWARDED)
    }

    /// The text of a file; `None` if the file does not exist.
    ///
    /// # Errors
    /// The file exists, but cannot be read.
    pub fn read(&self, name: &str) -> Result<Option<String>, Fault> {
        let path = self.join(name);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(file(&path, "read", error)),
        }
    }

    /// Writes a file as a whole: a reader finds the old text or the new text, even after this process was killed. The
    /// file may not survive a power cut, because no content is worth a wait for the disk.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn replace(&self, name: &str, text: &str) -> Result<(), Fault> {
        let (path, fresh) = (self.join(name), self.join(&format!("{name}.new")));
        let written = std::fs::write(&fresh, text).and_then(|()| std::fs::rename(&fresh, &path));
        written.map_err(|error| file(&path, "write", error))
    }
}

/// Closes the folder to other users: a user with write access could replace the configuration, a user with read access
/// could read the messages.
fn close_to_others(path: &Path) -> Result<(), Fault> {
    let found = std::fs::metadata(path).map_err(|error| file(path, "inspect", error))?;
    let refusal = |why: &str| Err(Fault::new(&FILE, format!("{} {why}", path.display())));
    if found.uid() != geteuid().as_raw() {
        return refusal("belongs to another user; choose your own folder with --data");
    }
    if found.mode() & OTHERS == 0 {
        return Ok(());
    }
    let mut entries = std::fs::read_dir(path).map_err(|error| file(path, "read", error))?;
    if !path.join("lock").exists() && entries.next().is_some() {
        return refusal(
            "other users can read it, and it holds other files; choose an empty folder with --data",
        );
    }
    let closed = std::fs::set_permissions(path, Permissions::from_mode(found.mode() & 0o7777 & !OTHERS));
    closed.map_err(|error| file(path, "close to other users", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_to_all() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        dir
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_folder_and_all_that_is_made_in_it_are_closed_to_others() {
        let empty = open_to_all();
        let used = open_to_all();
        std::fs::write(used.path().join("lock"), "").unwrap();
        for path in [empty.path().join("made"), empty.path().to_owned(), used.path().to_owned()] {
            let _ = std::fs::remove_dir_all(empty.path().join("made"));
            let folder = DataFolder::open(&path).unwrap();
            folder.replace("a", "").unwrap();
            assert_eq!((mode(&path), mode(&path.join("redis"))), (0o700, 0o700), "{}", path.display());
            assert_eq!((mode(&path.join("a")), mode(&path.join("spool"))), (0o600, 0o700));
        }
    }

    #[test]
    fn a_folder_that_others_may_read_and_that_holds_other_things_is_refused_as_it_is() {
        let dir = open_to_all();
        std::fs::write(dir.path().join("notes"), "").unwrap();
        let refusal = DataFolder::open(dir.path()).unwrap_err();
        assert!(refusal.to_string().contains("holds other files"), "{refusal}");
        assert_eq!((mode(dir.path()), std::fs::read_dir(dir.path()).unwrap().count()), (0o755, 1));
    }

    #[test]
    fn a_folder_is_used_by_one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let first = DataFolder::open(dir.path()).unwrap();
        let refusal = DataFolder::open(dir.path()).unwrap_err();
        assert_eq!(refusal.code().id, FOLDER_IN_USE.id);
        drop(first);
        assert!(DataFolder::open(dir.path()).is_ok());
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let folder = DataFolder::open(dir.path()).unwrap();
        assert_eq!(folder.read("a").unwrap(), None);
        folder.replace("a", "one").unwrap();
        folder.replace("a", "two").unwrap();
        assert_eq!(folder.read("a").unwrap().as_deref(), Some("two"));
    }
}
