//! Notices of new rows, on a separate connection.
//!
//! Notices only shorten the wait: polling finds rows even if every notice is lost.

use super::connection::connect;
use crate::outbox::config::OutboxConfig;
use crate::outbox::notices::Notices;
use std::convert::Infallible;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio_postgres::{AsyncMessage, Client, Error};

/// Pause before a lost connection is made again.
const PAUSE: Duration = Duration::from_secs(1);

/// The messages of a connection.
type ServerMessages = dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>> + Send;

/// Passes notices on, for ever.
pub(in crate::outbox) async fn listen(config: OutboxConfig, notices: Notices) -> Infallible {
    loop {
        match connect(&config).await {
            Ok((client, mut messages)) => {
                if let Err(error) = hear(&client, &mut messages, &notices).await {
                    tracing::warn!(%error, "cannot listen for new outbox rows: polling");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot listen for new outbox rows: polling");
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Passes notices on until the connection ends.
async fn hear(client: &Client, messages: &mut ServerMessages, notices: &Notices) -> Result<(), Error> {
    let hearing = async {
        while let Some(message) = poll_fn(&mut *messages).await {
            if let AsyncMessage::Notification(_) = message? {
                notices.tell();
            }
        }
        Ok(())
    };
    tokio::try_join!(client.batch_execute("LISTEN delayq_outbox"), hearing).map(drop)
}
