//! A connection to the gateway that sends a request and reads its answer: no more than the figures need.

use std::io;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) struct Connection {
    stream: TcpStream,
    /// The lines of every request, between its first line and its length.
    head: String,
    buffer: Vec<u8>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

enum Framing {
    Length(usize),
    Chunked,
}

// === impl Connection ===

impl Connection {
    pub(crate) async fn open(address: &str, token: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let head = format!("Host: {address}\r\nAuthorization: Bearer {token}\r\n");
        Ok(Self { stream, head, buffer: Vec::new() })
    }

    pub(crate) async fn json(&mut self, line: &str, body: &str) -> io::Result<Answer> {
        self.send(line, "application/json", body).await?;
        self.answer().await
    }

    pub(crate) async fn lines(&mut self, line: &str, body: &str) -> io::Result<Answer> {
        self.send(line, "application/x-ndjson", body).await?;
        self.answer().await
    }

    pub(crate) async fn send(&mut self, line: &str, kind: &str, body: &str) -> io::Result<()> {
        let (head, length) = (&self.head, body.len());
        let request = format!(
            "{line} HTTP/1.1\r\n{head}Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(request.as_bytes()).await
    }

    pub(crate) async fn answer(&mut self) -> io::Result<Answer> {
        let end = loop {
            match position(&self.buffer, b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => self.more().await?,
            }
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).to_ascii_lowercase();
        let status = head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
        self.buffer.drain(..end);
        let body = match framing(&head) {
            Framing::Length(length) => self.exactly(length).await?,
            Framing::Chunked => self.chunks().await?,
        };
        Ok(Answer { status, body })
    }

    async fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                match position(&self.buffer, b"\r\n") {
                    Some(at) => break at,
                    None => self.more().await?,
                }
            };
            let size = std::str::from_utf8(&self.buffer[..end]).ok();
            let size = size.and_then(|size| usize::from_str_radix(size, 16).ok());
            let size = size.ok_or_else(|| io::Error::other("no size of a chunk"))?;
            self.buffer.drain(..end + 2);
            let chunk = self.exactly(size + 2).await?;
            if size == 0 {
                return Ok(body);
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }

    async fn exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < length {
            self.more().await?;
        }
        let rest = self.buffer.split_off(length);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    async fn more(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

fn framing(head: &str) -> Framing {
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    match length.and_then(|length| length.trim().parse().ok()) {
        Some(length) => Framing::Length(length),
        None if head.contains("transfer-encoding: chunked") => Framing::Chunked,
        None => Framing::Length(0),
    }
}

fn position(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}
