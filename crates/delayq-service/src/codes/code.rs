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

/// Defines codes, and `TABLE` with all of them.
///
/// ```
/// use delayq_service::Exit;
/// use delayq_service::codes::Code;
///
/// delayq_service::codes! {
///     /// The cellar is locked.
///     LOCKED = Code {
///         id: "DQ-X001",
///         title: "the cellar is locked",
///         cause: "Somebody else has the key.",
///         tries: ["Knock.", "Wait.", "Go home."],
///         exit: Exit::Unavailable,
///     };
/// }
/// assert_eq!(TABLE, [&LOCKED]);
/// ```
#[macro_export]
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:expr;)*) => {
        $($(#[$doc])* pub const $name: $crate::codes::Code = $code;)*

        /// Every code of this module.
        pub const TABLE: &[&$crate::codes::Code] = &[$(&$name),*];
    };
}
