//! The names of processes and fleet members.

use crate::config::Faults;

/// Checks that a text can name a process, or be one part of a key: 1 to 64 of `A-Z a-z 0-9 . _ -`, but not `.` or `..`.
#[must_use]
pub fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        && text != "."
        && text != ".."
}

/// Refuses an invalid process name; `""` stands for the default, [`name_of_process`].
pub fn validate_name(at: &mut Faults, key: &str, name: &str) {
    if !name.is_empty() && !is_name(name) {
        at.refuse(key, "expected at most 64 characters of A-Z, a-z, 0-9, ., _ and -, and not . or ..");
    }
}

/// A name unique to this process: host name and process id.
#[must_use]
pub fn name_of_process() -> String {
    let system = rustix::system::uname();
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "._-".contains(*c);
    let host: String = system.nodename().to_string_lossy().chars().filter(is_plain).take(48).collect();
    format!("{host}-{}", std::process::id())
}
