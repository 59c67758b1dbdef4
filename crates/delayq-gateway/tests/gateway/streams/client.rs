//! A client of a stream.

use crate::stage::Running;
use delayq_tests::deadline::{SHORT, within};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderName;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

/// Pongs while it waits for a frame.
#[derive(Debug)]
pub(crate) struct StreamClient<S = TcpStream> {
    pub(crate) web: WebSocketStream<S>,
    pub(crate) protocol: Option<String>,
    /// Frames with a ping.
    pub(crate) pings: usize,
}

// === impl StreamClient ===

impl StreamClient {
    pub(crate) async fn open(gateway: &Running) -> Self {
        Self::opened(gateway, &[]).await.unwrap()
    }

    /// `Err`: the status of the refusal.
    pub(crate) async fn opened(gateway: &Running, headers: &[(&str, &str)]) -> Result<Self, u16> {
        Self::over(gateway.connect().await, &gateway.address, headers).await
    }

    /// Leaves the connection as it is.
    pub(crate) fn into_socket(self) -> TcpStream {
        self.web.into_inner()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> StreamClient<S> {
    /// `Err`: the status of the refusal.
    pub(crate) async fn over(stream: S, address: &str, headers: &[(&str, &str)]) -> Result<Self, u16> {
        let mut request = format!("ws://{address}/v1/stream").into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        match within("the handshake", SHORT, client_async(request, stream)).await {
            Ok((web, response)) => {
                let protocol = response.headers().get("sec-websocket-protocol");
                let protocol = protocol.map(|protocol| protocol.to_str().unwrap().to_owned());
                Ok(Self { web, protocol, pings: 0 })
            }
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn ask(&mut self, frame: Value) {
        self.feed(frame).await;
        self.flush().await;
    }

    pub(crate) async fn feed(&mut self, frame: Value) {
        self.web.feed(Message::Text(frame.to_string().into())).await.unwrap();
    }

    pub(crate) async fn flush(&mut self) {
        within("the flush", SHORT, self.web.flush()).await.unwrap();
    }

    async fn next(&mut self) -> Message {
        let next = within("a frame", SHORT, self.web.next()).await;
        next.expect("the stream is open").expect("the stream is sound")
    }

    /// The next frame of the gateway; pings are counted.
    pub(crate) async fn told(&mut self) -> Value {
        loop {
            match self.next().await {
                Message::Text(text) => {
                    let told: Value = serde_json::from_str(&text).unwrap();
                    match told.get("ping") {
                        None => return told,
                        Some(_) => self.pings += 1,
                    }
                }
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub(crate) async fn message(&mut self) -> Value {
        let told = self.told().await;
        assert!(told["message"].is_object(), "{told}");
        told["message"].clone()
    }

    /// The close frame of the gateway, which other frames may precede.
    pub(crate) async fn closed(&mut self) -> (u16, String) {
        loop {
            match self.next().await {
                Message::Close(Some(CloseFrame { code, reason })) => {
                    // Answers.
                    let _ = self.web.flush().await;
                    return (code.into(), reason.to_string());
                }
                Message::Close(None) => panic!("a close frame without a code"),
                _ => {}
            }
        }
    }

    /// Closes as RFC 6455 says.
    pub(crate) async fn close(mut self) {
        self.web.close(None).await.unwrap();
        while within("the end", SHORT, self.web.next()).await.is_some_and(|next| next.is_ok()) {}
    }
}
