//! A secret: written plainly, or by the file or environment variable that holds it, and never printed.

use super::text::refuse_bare_values;
use super::{environment, secrets};
use delayq::Password;
use secrecy::{ExposeSecret, SecretString};
use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::path::PathBuf;

/// The printed form of a secret.
pub const MASK: &str = "***";

const EXPECTED: &str = "a string in quotes, { file = \"/path\" } or { env = \"NAME\" }";

/// A password or token, or its source.
///
/// [`reveal`](Self::reveal) reads a file or variable each time, so that a new connection uses a rotated password. A
/// source is printed as written; a plain secret prints as `***`.
#[derive(Clone)]
pub struct Secret(Kept);

#[derive(Clone)]
enum Kept {
    Plain(SecretString),
    File(PathBuf),
    Variable(String),
}

// === impl Secret ===

impl Secret {
    /// A secret given directly.
    #[must_use]
    pub fn plain(secret: impl Into<String>) -> Self {
        Self(Kept::Plain(SecretString::from(secret.into())))
    }

    /// A secret in a file; one line break at its end is removed.
    #[must_use]
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(Kept::File(path.into()))
    }

    /// A secret in an environment variable of this process.
    #[must_use]
    pub fn variable(name: impl Into<String>) -> Self {
        Self(Kept::Variable(name.into()))
    }

    /// Reads the secret.
    ///
    /// # Errors
    /// A sentence without the secret: the file or variable is missing, unreadable or empty.
    pub fn reveal(&self) -> Result<SecretString, String> {
        match &self.0 {
            Kept::Plain(secret) => Ok(secret.clone()),
            Kept::File(path) => Password::file(path).read().map(SecretString::from),
            Kept::Variable(name) => environment::variable(name).map(SecretString::from),
        }
    }

    /// The secret for a client that reads it again for each connection.
    ///
    /// # Errors
    /// As [`reveal`](Self::reveal): an unreadable source at start is a fault of the configuration.
    pub fn password(&self) -> Result<Password, String> {
        let now = self.reveal()?;
        Ok(match &self.0 {
            Kept::File(path) => Password::file(path),
            // The environment of a process does not change.
            Kept::Plain(_) | Kept::Variable(_) => Password::value(now.expose_secret()),
        })
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Kept::Plain(one), Kept::Plain(other)) => one.expose_secret() == other.expose_secret(),
            (Kept::File(one), Kept::File(other)) => one == other,
            (Kept::Variable(one), Kept::Variable(other)) => one == other,
            _ => false,
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kept::Plain(_) => out.write_str(MASK),
            Kept::File(path) => write!(out, "file {}", path.display()),
            Kept::Variable(name) => write!(out, "env {name}"),
        }
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        secrets::found(|| self.reveal().ok());
        let (key, value) = match &self.0 {
            Kept::Plain(_) => return serializer.serialize_str(MASK),
            Kept::File(path) => ("file", path.display().to_string()),
            Kept::Variable(name) => ("env", name.clone()),
        };
        let mut reference = serializer.serialize_map(Some(1))?;
        reference.serialize_entry(key, &value)?;
        reference.end()
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecretVisitor)
    }
}

struct SecretVisitor;

impl<'de> Visitor<'de> for SecretVisitor {
    type Value = Secret;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Secret, E> {
        match text {
            "" => Err(E::custom("the secret is empty; to use no secret, remove the key")),
            MASK => Err(E::custom("`***` is a redacted secret; write the secret itself")),
            secret => Ok(Secret::plain(secret)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Secret, A::Error> {
        let shape = || A::Error::custom(format_args!("not a reference to a secret, expected {EXPECTED}"));
        let (key, value) = entries.next_entry::<String, String>().map_err(|_| shape())?.ok_or_else(shape)?;
        let further = entries.next_key::<String>()?.is_some();
        match key.as_str() {
            "file" if !further => Ok(Secret::file(value)),
            "env" if !further => Ok(Secret::variable(value)),
            _ => Err(shape()),
        }
    }

    refuse_bare_values!(EXPECTED);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, Serialize)]
    struct Holder {
        password: Secret,
    }

    fn refusal(text: &str) -> String {
        toml::from_str::<Holder>(text).unwrap_err().message().to_owned()
    }

    #[test]
    fn a_plain_secret_is_never_printed() {
        let holder: Holder = toml::from_str("password = 'hunter2'").unwrap();
        assert_eq!(holder.password.reveal().unwrap().expose_secret(), "hunter2");
        assert_eq!(toml::to_string(&holder).unwrap(), "password = \"***\"\n");
        assert!(!format!("{holder:?}").contains("hunter2"));
    }

    #[test]
    fn a_file_is_read_each_time_and_loses_one_line_break() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let secret = Secret::file(&path);
        assert!(secret.reveal().unwrap_err().contains("cannot read"));
        for (written, read) in [("first\n", "first"), ("second\r\n", "second"), ("third\n\n", "third\n")] {
            std::fs::write(&path, written).unwrap();
            assert_eq!(secret.reveal().unwrap().expose_secret(), read);
        }
        std::fs::write(&path, "\n").unwrap();
        assert!(secret.reveal().unwrap_err().contains("empty"));
    }

    #[test]
    fn a_refused_secret_is_not_repeated() {
        for value in
            ["8472947", "-8472947", "8472947.5", "[8472947]", "{ word = '8472947' }", "{ file = 8472947 }"]
        {
            let refusal = refusal(&format!("password = {value}"));
            assert!(!refusal.contains("8472947"), "{value}: {refusal}");
        }
        assert!(refusal("password = '***'").contains("is a redacted"));
        assert!(refusal("password = ''").contains("remove the key"));
        assert!(refusal("password = { file = 'a', env = 'B' }").contains("not a reference"));
    }

    #[test]
    fn a_reference_is_printed_as_it_was_written() {
        for text in ["[password]\nfile = \"/run/secrets/redis\"\n", "[password]\nenv = \"REDIS_PASSWORD\"\n"]
        {
            let holder: Holder = toml::from_str(text).unwrap();
            assert_eq!(toml::to_string(&holder).unwrap(), text);
        }
    }
}
