//! Redis's own statistics.

use crate::bare::{Answer, Bare};
use crate::error::BenchError;

pub(crate) async fn section(bare: &mut Bare, name: &str) -> Result<String, BenchError> {
    match bare.call(&["INFO", name]).await? {
        Answer::Text(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        _ => Err(BenchError::Wrong("INFO answered no text".to_owned())),
    }
}

/// The line starts with `line`; the number follows `name`; 0 if missing.
pub(crate) fn number(text: &str, line: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|text| text.strip_prefix(line));
    let number = line.and_then(|line| line.split_once(name)?.1.split(',').next()?.trim().parse().ok());
    number.unwrap_or(0.0)
}

pub(crate) async fn redis_cpu(bare: &mut Bare) -> Result<f64, BenchError> {
    let text = section(bare, "cpu").await?;
    Ok(number(&text, "used_cpu_user:", "") + number(&text, "used_cpu_sys:", ""))
}
