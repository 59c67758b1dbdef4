//! The limit: a client that only writes requests and counts replies, on one connection.
//!
//! The client knows just enough of the protocol to send commands (RESP2) and to find the end of a reply.

use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) struct Bare {
    stream: TcpStream,
    input: Vec<u8>,
    at: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Request(Vec<u8>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Text(Vec<u8>),
    Number(i64),
    Nil,
    List(Vec<Answer>),
}

// === impl Request ===

impl Request {
    pub(crate) fn new(words: &[impl AsRef<[u8]>]) -> Self {
        let mut out = format!("*{}\r\n", words.len()).into_bytes();
        for word in words.iter().map(AsRef::as_ref) {
            out.extend(format!("${}\r\n", word.len()).into_bytes());
            out.extend(word);
            out.extend(b"\r\n");
        }
        Self(out)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

// === impl Bare ===

impl Bare {
    pub(crate) async fn connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, input: Vec::with_capacity(1 << 20), at: 0 })
    }

    pub(crate) async fn call(&mut self, words: &[impl AsRef<[u8]>]) -> io::Result<Answer> {
        self.stream.write_all(&Request::new(words).0).await?;
        self.answer().await
    }

    pub(crate) async fn drive(&mut self, requests: &[Request], window: usize) -> io::Result<Duration> {
        let start = crate::clock::now();
        let (mut sent, mut answered) = (0, 0);
        let mut out = Vec::with_capacity(1 << 20);
        while answered < requests.len() {
            out.clear();
            while sent < requests.len() && sent - answered < window {
                out.extend_from_slice(&requests[sent].0);
                sent += 1;
            }
            self.stream.write_all(&out).await?;
            self.answer().await?;
            answered += 1;
            while let Some(answer) = self.buffered()? {
                drop(answer);
                answered += 1;
            }
        }
        Ok(crate::clock::now() - start)
    }

    async fn answer(&mut self) -> io::Result<Answer> {
        loop {
            if let Some(answer) = self.buffered()? {
                return Ok(answer);
            }
            if self.at > 0 {
                self.input.drain(..self.at);
                self.at = 0;
            }
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn buffered(&mut self) -> io::Result<Option<Answer>> {
        let mut at = self.at;
        match parse(&self.input, &mut at) {
            Some(Err(error)) => Err(io::Error::other(error)),
            Some(Ok(answer)) => {
                self.at = at;
                Ok(Some(answer))
            }
            None => Ok(None),
        }
    }
}

fn line<'a>(input: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let rest = input.get(*at..)?;
    let end = rest.windows(2).position(|two| two == b"\r\n")?;
    *at += end + 2;
    Some(&rest[..end])
}

pub(crate) fn parse(input: &[u8], at: &mut usize) -> Option<Result<Answer, String>> {
    let head = line(input, at)?;
    let (kind, rest) = head.split_first()?;
    let number = || std::str::from_utf8(rest).ok().and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
    match kind {
        b'+' => Some(Ok(Answer::Text(rest.to_vec()))),
        b'-' => Some(Err(String::from_utf8_lossy(rest).into_owned())),
        b':' => Some(Ok(Answer::Number(number()))),
        b'$' if number() < 0 => Some(Ok(Answer::Nil)),
        b'$' => {
            let length = usize::try_from(number()).unwrap_or(0);
            let text = input.get(*at..*at + length + 2)?;
            *at += length + 2;
            Some(Ok(Answer::Text(text[..length].to_vec())))
        }
        b'*' => {
            let mut items = Vec::new();
            for _ in 0..number() {
                match parse(input, at)? {
                    Ok(item) => items.push(item),
                    Err(error) => return Some(Err(error)),
                }
            }
            Some(Ok(Answer::List(items)))
        }
        other => Some(Err(format!("a reply of the unknown kind {:?}", *other as char))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_read_only_when_all_of_it_is_there() {
        let whole = b"*3\r\n$2\r\nhi\r\n:7\r\n$-1\r\n";
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut], &mut 0), None, "{cut}");
        }
        let items = vec![Answer::Text(b"hi".to_vec()), Answer::Number(7), Answer::Nil];
        assert_eq!(parse(whole, &mut 0), Some(Ok(Answer::List(items))));
    }
}
