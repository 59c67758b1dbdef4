//! Checks of an endpoint without posting.

use super::url::url;
use crate::CheckError;
use reqwest::Url;

/// Returns warnings.
pub(super) fn check(base: &Url, destination: Option<&str>, signed: bool) -> Result<Vec<String>, CheckError> {
    url(base, destination.unwrap_or_default()).map_err(CheckError::Refused)?;
    let mut warnings = Vec::new();
    if base.scheme() == "http" {
        warnings.push(format!("{base} is not https: bodies and signatures can be read on the way"));
    }
    if !signed {
        warnings.push(format!("without `secret` the receiver at {base} cannot verify the sender"));
    }
    Ok(warnings)
}
