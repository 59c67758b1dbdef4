//! The sink `stdout`: NDJSON on standard output, for pipes and for watching.

use super::record;
use crate::{CheckError, Parcel, Sink};
use async_trait::async_trait;
use delayq_service::brokers::{Outcome, Outcomes};
use delayq_service::config::Section;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::sync::Arc;

/// `[sinks.NAME.stdout]`, without settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StdoutConfig {}

impl Section for StdoutConfig {}

pub(crate) struct StdoutSink;

#[async_trait]
impl Sink for StdoutSink {
    async fn check(&self, _destination: Option<&str>) -> Result<Vec<String>, CheckError> {
        let warning = "standard output confirms nothing: if the reader of a pipe ends, unread messages are \
                       lost";
        Ok(vec![warning.to_owned()])
    }

    async fn deliver(&self, parcels: &[Parcel], outcomes: &Arc<Outcomes>) {
        let mut lines = Vec::new();
        parcels.iter().for_each(|parcel| record::append_line(parcel, &mut lines));
        let written = tokio::task::spawn_blocking(move || write(&lines)).await;
        let outcome = match written.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
            Ok(()) => Outcome::Delivered,
            Err(error) => Outcome::down(format!("standard output: {error}")),
        };
        outcomes.put_rest(&outcome);
    }
}

fn write(lines: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(lines)?;
    out.flush()
}
