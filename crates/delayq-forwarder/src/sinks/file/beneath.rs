//! Files below the sink's folder, opened without following symlinks: a user with write access to a subfolder could
//! otherwise redirect the forwarder to any file it may write.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, mkdirat, openat, renameat, statat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

/// The umask decides, as for other programs.
const FOLDER: u32 = 0o777;
const FILE: u32 = 0o666;

pub(super) struct Beneath<'p> {
    folder: OwnedFd,
    name: &'p OsStr,
}

// === impl Beneath ===

impl<'p> Beneath<'p> {
    /// Finds `within` in `dir`, creating missing folders on the way.
    pub(super) fn find(dir: &Path, within: &'p Path) -> io::Result<Self> {
        let is_folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // The operator chose this folder and may use symlinks.
        let mut folder = openat(CWD, dir, is_folder, Mode::empty())?;
        let mut parts = within.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        });
        let name = parts.next_back().ok_or_else(|| io::Error::other("the path has no file name"))?;
        for part in parts {
            match mkdirat(&folder, part, Mode::from_raw_mode(FOLDER)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let opened = openat(&folder, part, is_folder | OFlags::NOFOLLOW, Mode::empty());
            folder = opened.map_err(|error| cannot(&folder, part, error))?;
        }
        Ok(Self { folder, name })
    }

    pub(super) fn open(&self) -> io::Result<File> {
        // Does not wait for the other end of a pipe.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = openat(&self.folder, self.name, flags, Mode::from_raw_mode(FILE));
        let file = File::from(opened.map_err(|error| cannot(&self.folder, self.name, error))?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("not a regular file")),
        }
    }

    /// Renames the file to the next free `NAME.1`, `NAME.2` and so on.
    pub(super) fn set_aside(&self) -> io::Result<()> {
        let aside = (1_u32..).map(|n| {
            let mut name = OsString::from(self.name);
            name.push(format!(".{n}"));
            name
        });
        let is_free = |name: &OsString| statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).is_err();
        let aside = aside.into_iter().find(is_free).expect("numbers do not end");
        Ok(renameat(&self.folder, self.name, &self.folder, aside)?)
    }

    /// Makes the file's name survive a power cut.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.folder)?)
    }
}

fn cannot(folder: &OwnedFd, name: &OsStr, error: Errno) -> io::Error {
    let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    match found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink) {
        true => io::Error::other(format!("{} is a symlink, and symlinks are not followed", name.display())),
        false => error.into(),
    }
}
