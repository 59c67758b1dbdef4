//! A code of an operator-facing error.

use crate::exit::Exit;

/// One kind of operator-facing error.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// The stable name: `DQ-`, a letter and three digits.
    pub id: &'static str,
    /// A title of one line.
    pub title: &'static str,
    /// The cause.
    pub cause: &'static str,
    /// Remedies, the likeliest first.
    pub tries: [&'static str; 3],
    /// The exit code of a process that ends with this error.
    pub exit: Exit,
}
