//! The data folder of `delayq up`: what lies where, and that only one process uses it.
//!
//! ```text
//! lock              held while a process uses the folder
//! delayq.toml       the configuration for every command: delayq --config FOLDER/delayq.toml …
//! ports.json        the ports, kept over restarts
//! children.json     process id and start time of the servers, by which the next start finds them
//! redis/  etcd/     their data
//! spool/            puts that could not reach Redis
//! delivered.ndjson  what was delivered
//! logs/             redis.log, etcd.log, delayq.log
//! replay.json       how far a replayed log is
//! ```

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use delayq_service::Fault;

use crate::failure::{FOLDER_IN_USE, file};

/// The folder, locked.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    /// The lock lasts as long as the file is open.
    _lock: File,
}

// === impl DataFolder ===

impl DataFolder {
    /// Makes the folder where it is missing, and locks it.
    ///
    /// # Errors
    /// It cannot be written, or another process uses it.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        for inner in ["redis", "etcd", "spool", "logs"] {
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

    /// A file or folder in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The configuration for every command.
    pub fn configuration(&self) -> PathBuf {
        self.join("delayq.toml")
    }

    /// What was delivered.
    pub fn delivered(&self) -> PathBuf {
        self.join("delivered.ndjson")
    }

    /// A file's text; `None` where there is no such file.
    ///
    /// # Errors
    /// It is there, but cannot be read.
    pub fn read(&self, name: &str) -> Result<Option<String>, Fault> {
        let path = self.join(name);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(file(&path, "read", error)),
        }
    }

    /// Writes a file as a whole: whoever reads it after this process was killed finds the old text or the new one.
    /// It is not made to outlast a power cut: nothing in it is worth a wait for the disk.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn replace(&self, name: &str, text: &str) -> Result<(), Fault> {
        let (path, fresh) = (self.join(name), self.join(&format!("{name}.new")));
        let written = std::fs::write(&fresh, text).and_then(|()| std::fs::rename(&fresh, &path));
        written.map_err(|error| file(&path, "write", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
