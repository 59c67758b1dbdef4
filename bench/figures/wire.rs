//! A blocking connection for a thread that waits only for Redis.

use crate::bare::{Answer, Request, parse};
use std::io::{self, Read, Write};
use std::net::TcpStream;

pub(crate) struct Wire {
    stream: TcpStream,
    input: Vec<u8>,
}

// === impl Wire ===

impl Wire {
    pub(crate) fn connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(crate::clock::PATIENCE))?;
        Ok(Self { stream, input: Vec::new() })
    }

    pub(crate) fn call(&mut self, request: &Request) -> io::Result<Answer> {
        self.send([request])?;
        self.answer()
    }

    pub(crate) fn send<'r>(&mut self, requests: impl IntoIterator<Item = &'r Request>) -> io::Result<()> {
        let bytes: Vec<u8> = requests.into_iter().flat_map(Request::bytes).copied().collect();
        self.stream.write_all(&bytes)
    }

    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let mut some = [0; 64 * 1024];
        loop {
            if let Some(answer) = self.arrived()? {
                return Ok(answer);
            }
            let read = self.stream.read(&mut some)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.input.extend_from_slice(&some[..read]);
        }
    }

    pub(crate) fn arrived(&mut self) -> io::Result<Option<Answer>> {
        let mut at = 0;
        let Some(answer) = parse(&self.input, &mut at) else { return Ok(None) };
        self.input.drain(..at);
        answer.map(Some).map_err(io::Error::other)
    }
}
