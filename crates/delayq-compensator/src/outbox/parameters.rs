//! The parameters of `[outbox] url`, behind the `?`.

/// Refuses a parameter without effect: an unknown one, or one of a setting that the outbox makes itself. The refusal does not
/// name the parameter, which is part of a password if that has a `?`.
pub(super) fn check(url: &str, known: &[&str], of_tls: &[&str]) -> Result<(), String> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let name = pair.split('=').next().unwrap_or_default();
        if of_tls.contains(&name) {
            return Err("`[outbox] url` has a TLS parameter; set `tls` instead".to_owned());
        }
        if !known.contains(&name) {
            let known = known.join(", ");
            return Err(format!("`[outbox] url` has an unsupported parameter; allowed are: {known}"));
        }
    }
    Ok(())
}
