//! A password, either fixed or read from a file for each connection.

use std::fmt;
use std::path::{Path, PathBuf};

/// A password, either fixed or read from a file. `Debug` prints `***`, or the path of a file.
///
/// A file is read again for each new connection, so that a rotated password applies without a restart.
#[derive(Clone)]
pub struct Password(PasswordSource);

#[derive(Clone)]
enum PasswordSource {
    Value(String),
    File(PathBuf),
}

// === impl Password ===

impl Password {
    /// A password that never changes.
    pub fn value(password: impl Into<String>) -> Self {
        Self(PasswordSource::Value(password.into()))
    }

    /// A password in a UTF-8 file; a single line break at the end is ignored.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(PasswordSource::File(path.into()))
    }

    /// Reads the password now.
    ///
    /// # Errors
    /// A sentence without the password: the file is missing, unreadable or empty.
    pub fn read(&self) -> Result<String, String> {
        match &self.0 {
            PasswordSource::Value(password) => Ok(password.clone()),
            PasswordSource::File(path) => from_file(path),
        }
    }
}

impl<T: Into<String>> From<T> for Password {
    fn from(password: T) -> Self {
        Self::value(password)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            PasswordSource::Value(_) => f.write_str("***"),
            PasswordSource::File(path) => write!(f, "file {}", path.display()),
        }
    }
}

fn from_file(path: &Path) -> Result<String, String> {
    let mut text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read the secret from {}: {error}", path.display()))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    text.truncate(line.strip_suffix('\r').unwrap_or(line).len());
    if text.is_empty() {
        return Err(format!("the secret file {} is empty", path.display()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_printed() {
        assert_eq!(format!("{:?}", Password::value("hunter2")), "***");
        assert_eq!(format!("{:?}", Password::file("/run/secrets/redis")), "file /run/secrets/redis");
    }
}
