//! The printable form of a Redis address.

const MASK: &str = "***";

/// Query parameters that hold no secret; the value of any other parameter is masked, even of an unknown parameter.
const OPEN: [&str; 3] = ["db", "protocol", "user"];

pub(super) fn printed(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let rest = if scheme.is_empty() { url } else { rest };
    let query = rest.find('?').unwrap_or(rest.len());
    let place = if scheme.ends_with("unix") {
        &rest[..query]
    } else if rest[query..].contains('@') {
        // Either the password holds a `?` or the query an `@`; the two cases cannot be told apart.
        return format!("{scheme}://{MASK}");
    } else {
        rest[..query].rsplit('@').next().unwrap_or_default()
    };
    let colon = if scheme.is_empty() { "" } else { "://" };
    format!("{scheme}{colon}{place}{}", mask_query(&rest[query..]))
}

/// Masks every value in a URL's query except for parameters that are known to hold no secret.
pub fn mask_query(url: &str) -> String {
    let Some((place, query)) = url.split_once('?') else { return url.to_owned() };
    let masked = |pair: &str| match pair.split_once('=') {
        Some((key, _)) if OPEN.contains(&key) => pair.to_owned(),
        Some((key, _)) => format!("{key}={MASK}"),
        None => MASK.to_owned(),
    };
    format!("{place}?{}", query.split('&').map(masked).collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_password_is_printed_wherever_it_stands() {
        for (url, wanted) in [
            ("redis://h:1/2", "redis://h:1/2"),
            ("redis://u:hunter2@h:1", "redis://h:1"),
            ("redis://u:hun@ter2@h:1?protocol=resp3", "redis://h:1?protocol=resp3"),
            ("redis://u:hun?ter2@h:1", "redis://***"),
            ("redis://h:1?password=hun@ter2", "redis://***"),
            ("redis://h:1?password=hunter2&db=1", "redis://h:1?password=***&db=1"),
            ("redis+unix:///run/a@b.sock?user=u&pass=hun@ter2", "redis+unix:///run/a@b.sock?user=u&pass=***"),
            ("unix:///run/r.sock?%70ass=hunter2&hunter2", "unix:///run/r.sock?%70ass=***&***"),
            ("u:hunter2@h:1", "h:1"),
            ("h:1", "h:1"),
        ] {
            assert_eq!(printed(url), wanted);
        }
    }
}
