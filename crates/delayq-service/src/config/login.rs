//! The login of a section: a user and a password.

use super::{Faults, Secret};

crate::section! {
    /// A user and a password, in every section that logs in.
    pub struct Login {
        /// User; unset: none, or the server's default user.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub username: Option<String> = None,
        /// Password; unset: none. A file is read again for each connection.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub password: Option<Secret> = None,
    }
}

// === impl Login ===

impl Login {
    /// Refuses an unreadable password, and a user without one. A password alone belongs to the server's default user.
    pub fn validate(&self, at: &mut Faults) {
        at.secret("password", self.password.as_ref());
        if self.username.is_some() && self.password.is_none() {
            at.contradiction(&["username", "password"], "a user needs a `password`");
        }
    }

    /// As [`validate`](Self::validate), for a server without a default user: also refuses a password without a user.
    pub fn validate_whole(&self, at: &mut Faults) {
        self.validate(at);
        if self.password.is_some() && self.username.is_none() {
            at.contradiction(&["password", "username"], "a password needs a `username`");
        }
    }
}
