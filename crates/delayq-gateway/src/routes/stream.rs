//! Reserving over a WebSocket: messages come as far as the credits of the client reach, and are settled over the same socket.
//!
//! ```text
//!  credits ─► poll ─► dispatcher ─► unsent ─► socket ─► unsettled ─► settled: the credit is free again
//!                                     │                    │
//!        the stream ends:  back, attempt kept      back, the attempt counts
//! ```
//! `running` is the loop of a stream over its `messages` and `settlements`, `ask` and `tell` are the frames of both sides, and
//! `closing` says why a stream ends.

mod ask;
mod call;
mod closing;
mod credits;
mod messages;
mod running;
mod settlements;
mod socket;
mod tell;

use super::answer::Answer;
use crate::admission::Admission;
use crate::input::Ask;
use crate::problem::{Kind, Problem};
use crate::server::Onward;
use crate::state::App;
use ask::MAX_FRAME;
use axum::Extension;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::header;
use running::Streaming;
use tokio::sync::oneshot;

const PROTOCOL: &str = "delayq.v1";
/// Bytes that each stream reads at a time. Taken from memory at the start.
const READ_BUFFER: usize = 4096;

pub(super) async fn open(
    State(app): State<App>,
    Extension(onward): Extension<Onward>,
    Extension(admission): Extension<Admission>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    mut ask: Ask,
) -> Answer {
    let upgrade = spoken(upgrade)?;
    let connection = ask.connection.take();
    let (_, peer) = connection.expect("the server gives every request its connection");
    let scope = ask.scope;
    let place = scope.place()?;
    scope.yield_turn();
    let (opening, opened) = oneshot::channel();
    let streaming = Streaming { app, scope, admission, peer };
    // The connection's task runs the stream: a stream counts as a connection, and a drain waits for the end.
    onward.set(move |terms| async move {
        if let Ok(socket) = opened.await {
            streaming.run(socket, terms).await;
        }
        drop(place);
    });
    Ok(upgrade.on_upgrade(async move |socket| drop(opening.send(socket))))
}

/// Refuses a request without a handshake, and an unknown subprotocol.
fn spoken(upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>) -> Result<WebSocketUpgrade, Problem> {
    let upgrade = upgrade.map_err(|refusal| {
        let why = format!("open a WebSocket of version 13 here: {}", refusal.body_text());
        Problem::new(Kind::NoUpgrade, why)
    })?;
    let upgrade = upgrade.protocols([PROTOCOL]);
    let offered = upgrade.requested_protocols().next().map(|offered| offered.to_str().unwrap_or("?"));
    if let (Some(offered), None) = (offered, upgrade.selected_protocol()) {
        let problem = Problem::unknown("subprotocol", offered, &[PROTOCOL]);
        return Err(problem.at(header::SEC_WEBSOCKET_PROTOCOL.as_str()));
    }
    Ok(upgrade
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(0)
        .max_frame_size(MAX_FRAME)
        .max_message_size(MAX_FRAME))
}
