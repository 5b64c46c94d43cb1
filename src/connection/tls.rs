//! TLS, set up only once the server has agreed to it.

use std::error::Error;
use std::pin::Pin;

use postgres_native_tls::{TlsConnector, TlsStream};
use tokio_postgres::tls::TlsConnect;

use super::socket::Socket;

/// Builds the TLS connector when the handshake begins: loading it parses the system's CA bundle, which a
/// server without TLS must not cost.
#[derive(Debug)]
pub struct LazyTls {
    /// Sent as server name indication (RFC 6066).
    pub host: String,
}

type Handshake =
    dyn Future<Output = Result<TlsStream<Socket>, Box<dyn Error + Send + Sync>>> + Send;

impl TlsConnect<Socket> for LazyTls {
    type Stream = TlsStream<Socket>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<Handshake>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            // sslmode=prefer and require encrypt without asking who the server is (PostgreSQL
            // documentation, 34.19.1 "Client Verification of Server Certificates").
            let connector = native_tls::TlsConnector::builder()
                .disable_built_in_roots(true)
                .danger_accept_invalid_certs(true)
                .danger_accept_invalid_hostnames(true)
                .build()?;
            Ok(TlsConnector::new(connector, &self.host)
                .connect(socket)
                .await?)
        })
    }
}
