//! TLS over a socket, set up only once the server has agreed to it.

use std::error::Error;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::ssl::{Ssl, SslRef};
use tokio::io::{AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio_openssl::SslStream;
use tokio_postgres::tls::{self, ChannelBinding, TlsConnect};

use super::aside::aside;
use super::socket::Socket;
use super::tls_errors;
use super::tls_session::{self, ALPN, BoxError, Complaint};
use super::tls_settings::TlsSettings;

/// Sets TLS up when the handshake begins: that reads files, which a server without TLS must not cost.
pub struct LazyTls<'a> {
    pub settings: &'a TlsSettings,
    /// What the certificate must be for, and what is sent as server name indication (RFC 6066).
    pub host: &'a str,
}

/// Why there is no encrypted stream.
#[derive(Debug)]
pub struct HandshakeError(BoxError);

type Handshake<'a> = dyn Future<Output = Result<TlsStream, HandshakeError>> + Send + 'a;

impl<'a> TlsConnect<Socket> for LazyTls<'a> {
    type Stream = TlsStream;
    type Error = HandshakeError;
    type Future = Pin<Box<Handshake<'a>>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move { self.shake_hands(socket).await.map_err(HandshakeError) })
    }
}

impl LazyTls<'_> {
    async fn shake_hands(self, socket: Socket) -> Result<TlsStream, BoxError> {
        let complaint = Complaint::default();
        let session = self.session(&complaint).await?;
        let mut stream = SslStream::new(session, BufReader::new(socket))?;
        if let Err(error) = Pin::new(&mut stream).connect().await {
            return Err(match complaint.get() {
                Some(complaint) => complaint.as_str().into(),
                None => tls_errors::describe_handshake(&error).into(),
            });
        }
        // Without this another kind of server could be talked into answering (PostgreSQL documentation, 34.1.2).
        if self.settings.direct && stream.ssl().selected_alpn_protocol() != Some(ALPN) {
            return Err("the server does not say that it speaks PostgreSQL's protocol (sslnegotiation=direct needs PostgreSQL 17)".into());
        }
        Ok(TlsStream {
            stream,
            broken: None,
        })
    }

    /// It reads files, one of which may be slow to read, or have no end.
    async fn session(&self, complaint: &Complaint) -> Result<Ssl, BoxError> {
        let (settings, host) = (self.settings.clone(), self.host.to_owned());
        let complaint = Arc::clone(complaint);
        aside("tls-files", move || {
            tls_session::new(&settings, &host, &complaint)
        })
        .await?
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TLS handshake failed")
    }
}

impl Error for HandshakeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

/// The encrypted stream; the buffer saves a system call for each record's header.
pub struct TlsStream {
    stream: SslStream<BufReader<Socket>>,
    /// Why nothing can be written any more, until that is told.
    broken: Option<io::Error>,
}

impl tls::TlsStream for TlsStream {
    fn channel_binding(&self) -> ChannelBinding {
        server_end_point(self.stream.ssl())
            .map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

/// The hash of the server's certificate, by its signature's hash function but never a weak one (RFC 5929, 4.1).
fn server_end_point(session: &SslRef) -> Option<Vec<u8>> {
    let certificate = session.peer_certificate()?;
    let signature = certificate.signature_algorithm().object().nid();
    let digest = match signature.signature_algorithms()?.digest {
        Nid::MD5 | Nid::SHA1 => MessageDigest::sha256(),
        digest => MessageDigest::from_nid(digest)?,
    };
    let hash = certificate.digest(digest).ok()?;
    Some(hash.to_vec())
}

impl AsyncRead for TlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, broken } = &mut *self;
        if broken.is_none() {
            match Pin::new(&mut *stream).poll_write(cx, buf) {
                Poll::Ready(Err(error)) => *broken = Some(error),
                written => return written,
            }
        }
        // The server may have said why: it refuses a client's certificate after the handshake (RFC 8446, 4.4.2.4).
        let said = ready!(Pin::new(stream).poll_peek(cx, &mut [0]));
        let why = said.err().filter(|said| said.ssl_error().is_some());
        let broken = broken.take().unwrap_or(io::ErrorKind::BrokenPipe.into());
        Poll::Ready(Err(why.map_or(broken, io::Error::other)))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
