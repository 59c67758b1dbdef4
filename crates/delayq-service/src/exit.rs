//! The exit codes, equal in every binary, so that a supervisor can tell "try again" from "come and look".

use std::process::ExitCode;

/// Outcome of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// 0: the request is done; for a service, the drain completed.
    Done,
    /// 64: the command line is invalid, exceeds a limit or contradicts itself.
    Usage,
    /// 65: the request was understood, and refused because of stored data.
    Refused,
    /// 66: a named topic, message or dead letter does not exist.
    NotFound,
    /// 68: a part of the answer is missing, because some of the deployment's servers cannot be used.
    Partial,
    /// 69: a required server is unreachable or refused a request. Starting again may help.
    Unavailable,
    /// 70: a bug in delayq.
    Bug,
    /// 75: the drain deadline passed, or a second signal came, with work still running.
    DrainDeadline,
    /// 78: the configuration is wrong. Starting again does not help.
    Config,
}

// === impl Exit ===

impl Exit {
    /// Every exit code, in ascending order.
    pub const ALL: [Self; 9] = [
        Self::Done,
        Self::Usage,
        Self::Refused,
        Self::NotFound,
        Self::Partial,
        Self::Unavailable,
        Self::Bug,
        Self::DrainDeadline,
        Self::Config,
    ];

    /// The number the parent process sees.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Usage => 64,
            Self::Refused => 65,
            Self::NotFound => 66,
            Self::Partial => 68,
            Self::Unavailable => 69,
            Self::Bug => 70,
            Self::DrainDeadline => 75,
            Self::Config => 78,
        }
    }

    /// The meaning for a supervisor or a script, in the words of the documents.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Usage => "the command line is invalid, exceeds a limit or contradicts itself",
            Self::Refused => "refused because of stored data, or some lines or messages were skipped",
            Self::NotFound => "a named topic, message or dead letter does not exist",
            Self::Partial => "the answer is incomplete: some servers cannot be used",
            Self::Unavailable => {
                "a server, a file or a program cannot be used, the deployment is not as configured, or a check failed"
            }
            Self::Bug => "a bug in delayq, or inconsistent message counts",
            Self::DrainDeadline => "a drain passed its deadline or was interrupted",
            Self::Config => "the configuration is invalid",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
