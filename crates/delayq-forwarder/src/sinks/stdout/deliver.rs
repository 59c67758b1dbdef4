//! Writing: delivered is what the pipe took.

use super::check;
use crate::{CheckError, Outcome, Outcomes, Parcel, Sink, sinks::file::encode};
use async_trait::async_trait;
use std::{
    io::{self, Write},
    sync::Arc,
};

/// NDJSON on standard output.
pub(crate) struct StdoutSink;

#[async_trait]
impl Sink for StdoutSink {
    fn kind(&self) -> &'static str {
        "stdout"
    }

    async fn check(&self, _destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        Ok(vec![check::WARNING.to_owned()])
    }

    async fn deliver(&self, parcels: &[Parcel], outcomes: &Arc<Outcomes>) {
        let mut lines = Vec::new();
        parcels.iter().for_each(|parcel| encode::append(parcel, &mut lines));
        let written = tokio::task::spawn_blocking(move || write(&lines)).await;
        let outcome = match written.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
            Ok(()) => Outcome::Delivered,
            Err(error) => Outcome::down(format!("standard output: {error}")),
        };
        outcomes.put_rest(&outcome);
    }

    async fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

fn write(lines: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(lines)?;
    out.flush()
}
