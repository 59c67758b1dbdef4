//! What a Redis says of itself.

use crate::bare::{Answer, Bare};
use crate::error::BenchError;

/// One section of INFO.
pub(crate) async fn section(bare: &mut Bare, name: &str) -> Result<String, BenchError> {
    match bare.call(&["INFO", name]).await? {
        Answer::Text(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        _ => Err(BenchError::Wrong("INFO answered no text".to_owned())),
    }
}

/// The processor time that it has used so far, in seconds.
pub(crate) async fn redis_cpu(bare: &mut Bare) -> Result<f64, BenchError> {
    let text = section(bare, "cpu").await?;
    let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
    Ok(of("used_cpu_user:").unwrap_or(0.0) + of("used_cpu_sys:").unwrap_or(0.0))
}
