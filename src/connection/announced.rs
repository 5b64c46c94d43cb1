//! The backend process ID that the server announced when the session was opened.
//!
//! The client library keeps it for cancel requests and gives it out nowhere else; so a cancel request is
//! written into memory, and read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Client;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// The announced process ID of `client`'s backend; a pooler announces a number of its own.
pub async fn backend_pid(client: &Client) -> Option<i32> {
    let mut request = Memory::default();
    let token = client.cancel_token();
    token.cancel_query_raw(&mut request, InMemory).await.ok()?;
    // CancelRequest: length, code, process ID, secret key (PostgreSQL documentation, 55.7).
    let pid = request.written.get(8..12)?;
    Some(i32::from_be_bytes(pid.try_into().ok()?))
}

/// A stream that keeps what is written and gives nothing to read.
#[derive(Debug, Default)]
struct Memory {
    written: Vec<u8>,
}

/// "Encrypts" by doing nothing: the session's own TLS mode holds for cancel requests too.
struct InMemory;

impl<'a> TlsConnect<&'a mut Memory> for InMemory {
    type Stream = &'a mut Memory;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<Self::Stream>>;

    fn connect(self, memory: &'a mut Memory) -> Self::Future {
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
