//! Webhooks: the bare client posts over as many connections, and reads each answer.

use super::course::Course;
use super::target::{Target, headers, id, one_by_one};
use crate::deployment::{BODY_BYTES, body};
use delayq_forwarder::{SinkConfig, WebhookConfig};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(crate) async fn target() -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    let config = WebhookConfig { url: url.clone(), ..WebhookConfig::default() };
    let connections = usize::from(config.connections);
    let client = reqwest::Client::builder()
        .no_proxy()
        .tcp_nodelay(true)
        .pool_max_idle_per_host(connections)
        .build()
        .unwrap();
    Target {
        sink: SinkConfig { webhook: Some(config), ..SinkConfig::default() },
        to: "",
        bare: Box::new(move |count, course| {
            Box::pin(publish(client.clone(), url.clone(), connections, count, course))
        }),
        _server: Box::new(serving),
    }
}

async fn publish(
    client: reqwest::Client,
    url: String,
    connections: usize,
    count: usize,
    course: Arc<Course>,
) {
    one_by_one(count, connections, &course, async |n| {
        let mut request = client.post(&url).body(body(n)).header("idempotency-key", format!("t/{}", id(n)));
        for (name, value) in headers(n) {
            request = request.header(name, value);
        }
        request.send().await.unwrap().error_for_status().unwrap().bytes().await.unwrap();
    })
    .await;
}

/// Answers every request of a connection with 204: a head and a fixed-size body, or a HEAD without a body.
async fn serve(mut stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = Vec::with_capacity(4096);
    while stream.read_buf(&mut buffer).await.is_ok_and(|read| read > 0) {
        while let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let length = if buffer.starts_with(b"HEAD") { 0 } else { BODY_BYTES };
            if buffer.len() < end + 4 + length {
                break;
            }
            buffer.drain(..end + 4 + length);
            if stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.is_err() {
                return;
            }
        }
    }
}
