//! The kinds of refusals, each with a stable code.

use axum::http::StatusCode;

/// A code never changes its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Malformed,
    NoToken,
    OtherOrigin,
    ForeignHost,
    NoRoute,
    NoMethod,
    NoMessage,
    NoTopic,
    TooSlow,
    Conflict,
    Changed,
    TooLarge,
    OtherType,
    Invalid,
    Unknown,
    Fault,
    RedisAway,
    Full,
    Draining,
    Deadline,
    SessionEnded,
    NoRight,
    OfTenant,
    OverQuota,
    NoTenantToken,
    Busy,
    NoOperation,
    UnreadQuotas,
    LeaseLost,
    NoProvider,
    BadLogin,
    NoGroup,
    LostLogin,
    SpoolRefused,
    NoUpgrade,
    OverShare,
}

// === impl Kind ===

impl Kind {
    /// In the order of codes.
    pub(crate) const ALL: [Self; 36] = [
        Self::Malformed,
        Self::NoToken,
        Self::OtherOrigin,
        Self::ForeignHost,
        Self::NoRoute,
        Self::NoMethod,
        Self::NoMessage,
        Self::NoTopic,
        Self::TooSlow,
        Self::Conflict,
        Self::Changed,
        Self::TooLarge,
        Self::OtherType,
        Self::Invalid,
        Self::Unknown,
        Self::Fault,
        Self::RedisAway,
        Self::Full,
        Self::Draining,
        Self::Deadline,
        Self::SessionEnded,
        Self::NoRight,
        Self::OfTenant,
        Self::OverQuota,
        Self::NoTenantToken,
        Self::Busy,
        Self::NoOperation,
        Self::UnreadQuotas,
        Self::LeaseLost,
        Self::NoProvider,
        Self::BadLogin,
        Self::NoGroup,
        Self::LostLogin,
        Self::SpoolRefused,
        Self::NoUpgrade,
        Self::OverShare,
    ];

    const fn row(self) -> (&'static str, u16, &'static str) {
        match self {
            Self::Malformed => ("DQ-G101", 400, "the request is malformed"),
            Self::NoToken => ("DQ-G102", 401, "the token is missing or unknown"),
            Self::OtherOrigin => ("DQ-G103", 403, "the request comes from a web page of another origin"),
            Self::ForeignHost => ("DQ-G104", 421, "the request is for another host"),
            Self::NoRoute => ("DQ-G105", 404, "unknown path"),
            Self::NoMethod => ("DQ-G106", 405, "the path does not support this method"),
            Self::NoMessage => ("DQ-G107", 404, "no such message"),
            Self::NoTopic => ("DQ-G108", 404, "no such topic"),
            Self::TooSlow => ("DQ-G109", 408, "the body arrived too slowly"),
            Self::Conflict => ("DQ-G110", 409, "the current state forbids the change"),
            Self::Changed => ("DQ-G111", 412, "the message is not as expected"),
            Self::TooLarge => ("DQ-G112", 413, "the request is too large"),
            Self::OtherType => ("DQ-G113", 415, "the body has the wrong content type"),
            Self::Invalid => ("DQ-G114", 422, "a value is invalid"),
            Self::Unknown => ("DQ-G115", 400, "a parameter, header or body is unknown"),
            Self::Fault => ("DQ-G116", 500, "Redis refused the call"),
            Self::RedisAway => ("DQ-G117", 503, "Redis is unavailable"),
            Self::Full => ("DQ-G118", 503, "the gateway is full"),
            Self::Draining => ("DQ-G119", 503, "the gateway is stopping"),
            Self::Deadline => ("DQ-G120", 504, "the deadline passed"),
            Self::SessionEnded => ("DQ-G121", 401, "the session has ended"),
            Self::NoRight => ("DQ-G122", 403, "the token lacks the right"),
            Self::OfTenant => ("DQ-G123", 403, "the route is not for tenants"),
            Self::OverQuota => ("DQ-G124", 429, "the tenant is over its quota"),
            Self::NoTenantToken => ("DQ-G125", 404, "the tenant has no such token"),
            Self::Busy => ("DQ-G126", 429, "two operations are under way"),
            Self::NoOperation => ("DQ-G127", 404, "no such operation"),
            Self::UnreadQuotas => ("DQ-G128", 503, "the quotas of the tenant cannot be read"),
            Self::LeaseLost => ("DQ-G129", 410, "the lease is lost"),
            Self::NoProvider => ("DQ-G130", 503, "the identity provider cannot be used"),
            Self::BadLogin => ("DQ-G131", 401, "the identity provider's answer cannot be believed"),
            Self::NoGroup => ("DQ-G132", 403, "the person has no rights here"),
            Self::LostLogin => ("DQ-G133", 401, "the login did not end"),
            Self::SpoolRefused => {
                ("DQ-G134", 503, "Redis is unavailable, and the spool cannot keep the write")
            }
            Self::NoUpgrade => ("DQ-G135", 426, "the route speaks WebSocket"),
            Self::OverShare => {
                ("DQ-G136", 503, "Redis is unavailable, and the tenant's share of the spool is used up")
            }
        }
    }

    pub(crate) const fn code(self) -> &'static str {
        self.row().0
    }

    pub(crate) fn status(self) -> StatusCode {
        StatusCode::from_u16(self.row().1).expect("the table has valid statuses")
    }

    pub(crate) const fn title(self) -> &'static str {
        self.row().2
    }

    /// True if the same request may succeed soon.
    pub(crate) const fn is_passing(self) -> bool {
        matches!(
            self,
            Self::RedisAway
                | Self::Full
                | Self::Draining
                | Self::Busy
                | Self::UnreadQuotas
                | Self::NoProvider
                | Self::SpoolRefused
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_code_of_its_own_that_the_guide_explains() {
        let guide = include_str!("../../../../docs/guides/http.md");
        for (number, kind) in (101..).zip(Kind::ALL) {
            assert_eq!(kind.code(), format!("DQ-G{number}"));
            let row = format!("| `{}` | {} | {} |", kind.code(), kind.status().as_u16(), kind.title());
            assert!(guide.contains(&row), "docs/guides/http.md lacks: {row}");
        }
    }
}
