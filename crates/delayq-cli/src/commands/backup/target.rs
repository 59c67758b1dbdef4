//! Destination of a backup: a file that only the owner can read, or standard output.

use crate::backup_line::{Begin, Checkpoint, LeftOut, Record};
use crate::failure::{self, BACKUP_UNUSABLE};
use delayq_service::Fault;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Buffer size for reading and writing lines.
const PIECE_BYTES: usize = 1 << 18;

pub(super) struct BackupTarget {
    path: PathBuf,
    out: Out,
}

pub(super) struct Interrupted {
    pub(super) begin: Begin,
    pub(super) left_out: LeftOut,
    pub(super) checkpoint: Checkpoint,
}

enum Out {
    File(BufWriter<File>),
    Stdout(BufWriter<std::io::Stdout>),
}

// === impl BackupTarget ===

impl BackupTarget {
    /// `overwrite` replaces an existing file.
    pub(super) fn create(path: &Path, overwrite: bool) -> Result<Self, Fault> {
        if path.as_os_str() == "-" {
            let out = Out::Stdout(BufWriter::with_capacity(PIECE_BYTES, std::io::stdout()));
            return Ok(Self { path: "standard output".into(), out });
        }
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        match overwrite {
            true => options.create(true).truncate(true),
            false => options.create_new(true),
        };
        match options.open(path) {
            Ok(file) => {
                // Opening does not change the mode of an existing file; the mode of a device must stay.
                if overwrite && file.metadata().is_ok_and(|found| found.is_file()) {
                    let private = file.set_permissions(Permissions::from_mode(0o600));
                    private.map_err(|error| failure::file(path, "write to", error))?;
                }
                Ok(Self::of_file(path, file))
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(unusable(
                path,
                "the file exists: continue it with --resume, or replace it with --overwrite",
            )),
            Err(error) => Err(failure::file(path, "write to", error)),
        }
    }

    /// Drops the lines behind the last checkpoint.
    pub(super) fn resume(path: &Path) -> Result<(Self, Interrupted), Fault> {
        if path.as_os_str() == "-" {
            return Err(unusable(path, "--resume needs a file"));
        }
        let cannot = |error| failure::file(path, "continue", error);
        let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(cannot)?;
        let (mut begin, mut left_out, mut last) = (None, LeftOut::default(), None);
        let (mut line, mut length) = (Vec::new(), 0);
        let mut input = BufReader::with_capacity(PIECE_BYTES, &file);
        loop {
            line.clear();
            let read = input.read_until(b'\n', &mut line).map_err(cannot)?;
            // A line that was cut off is ignored.
            if !line.ends_with(b"\n") {
                break;
            }
            length += read as u64;
            match Record::of_line(line.trim_ascii()).map_err(|why| unusable(path, &why))? {
                Some(Record::Backup(found)) if begin.is_none() => begin = Some(found),
                Some(Record::LeftOut(found)) => left_out = found,
                Some(Record::Checkpoint(found)) => last = Some((found, left_out.clone(), length)),
                Some(Record::End(_)) => return Err(unusable(path, "the backup is already complete")),
                _ => {}
            }
        }
        let begin = begin.ok_or_else(|| unusable(path, "the file is not a backup"))?;
        let (checkpoint, left_out, length) =
            last.ok_or_else(|| unusable(path, "the file has no checkpoint: start over with --overwrite"))?;
        file.set_len(length).map_err(cannot)?;
        file.seek(SeekFrom::End(0)).map_err(cannot)?;
        Ok((Self::of_file(path, file), Interrupted { begin, left_out, checkpoint }))
    }

    fn of_file(path: &Path, file: File) -> Self {
        Self { path: path.to_owned(), out: Out::File(BufWriter::with_capacity(PIECE_BYTES, file)) }
    }

    pub(super) const fn is_stdout(&self) -> bool {
        matches!(self.out, Out::Stdout(_))
    }

    /// Tells the user how to resume, as the end of a sentence.
    pub(super) const fn how_to_resume(&self) -> &'static str {
        if self.is_stdout() { "" } else { "; continue with --resume" }
    }

    pub(super) fn line(&mut self, line: &str) -> Result<(), Fault> {
        let written = self.writer().write_all(line.as_bytes()).and_then(|()| self.writer().write_all(b"\n"));
        self.written(written)
    }

    pub(super) fn flush(&mut self) -> Result<(), Fault> {
        let written = self.writer().flush();
        self.written(written)
    }

    pub(super) fn finish(mut self) -> Result<(), Fault> {
        self.flush()?;
        match &self.out {
            Out::File(file) => self.written(file.get_ref().sync_all()),
            Out::Stdout(_) => Ok(()),
        }
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.out {
            Out::File(file) => file,
            Out::Stdout(stdout) => stdout,
        }
    }

    fn written(&self, written: std::io::Result<()>) -> Result<(), Fault> {
        written.map_err(|error| failure::file(&self.path, "write to", error))
    }
}

pub(super) fn unusable(path: &Path, why: &str) -> Fault {
    Fault::new(&BACKUP_UNUSABLE, format!("{}: {why}", path.display()))
}
