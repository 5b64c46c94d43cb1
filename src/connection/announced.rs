//! What was settled when the session was opened: the backend process ID that the server announced, and encryption.
//!
//! The client library keeps both for cancel requests and gives them out nowhere else; so a cancel request is
//! written into memory, and read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Client;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// What a session was opened with.
#[derive(Clone, Copy, Debug)]
pub struct Announced {
    /// The process ID of its backend; a pooler announces a number of its own.
    pub backend_pid: i32,
    pub is_encrypted: bool,
}

/// What `client` would use for a cancel request.
pub async fn announced(client: &Client) -> Option<Announced> {
    let mut request = Memory::default();
    let token = client.cancel_token();
    token.cancel_query_raw(&mut request, InMemory).await.ok()?;
    // CancelRequest: length, code, process ID, secret key (PostgreSQL documentation, 55.7).
    let pid = request.written.get(8..12)?;
    Some(Announced {
        backend_pid: i32::from_be_bytes(pid.try_into().ok()?),
        is_encrypted: request.is_encrypted,
    })
}

/// A stream that keeps what is written and gives nothing to read.
#[derive(Debug, Default)]
struct Memory {
    written: Vec<u8>,
    is_encrypted: bool,
}

/// "Encrypts" by noting that it was asked to: the session's own TLS mode holds for cancel requests too.
struct InMemory;

impl<'a> TlsConnect<&'a mut Memory> for InMemory {
    type Stream = &'a mut Memory;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<Self::Stream>>;

    fn connect(self, memory: &'a mut Memory) -> Self::Future {
        memory.is_encrypted = true;
        std::future::ready(Ok(memory))
    }
}

impl TlsStream for &mut Memory {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Memory {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Memory {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.written.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
