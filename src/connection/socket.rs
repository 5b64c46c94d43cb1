//! One stream type over TCP and Unix sockets.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use nix::unistd::{Uid, User};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::aside::aside;
use super::hosts::{Address, Host};
use super::tcp_settings::TcpSettings;

/// A connected socket to a server.
#[derive(Debug)]
pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Connects; a name with several addresses is tried address by address.
    pub async fn connect(host: &Host, tcp: TcpSettings) -> io::Result<Self> {
        match &host.address {
            Address::UnixSocket(directory) => {
                connect_unix(directory, host.port).await.map(Self::Unix)
            }
            Address::Tcp(name) => {
                let stream = TcpStream::connect(&addresses(name, host.port).await?[..]).await?;
                stream.set_nodelay(true)?;
                tcp.apply(&stream)?;
                Ok(Self::Tcp(stream))
            }
        }
    }

    /// Another descriptor of the same socket.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
        .try_clone_to_owned()
    }

    /// Fails unless the process at the other end of a Unix socket runs as `user` (`requirepeer`).
    pub fn check_peer(&self, user: &str) -> io::Result<()> {
        let Self::Unix(stream) = self else {
            return Ok(());
        };
        let uid = Uid::from_raw(stream.peer_cred()?.uid());
        let peer = User::from_uid(uid)?.map_or_else(|| uid.to_string(), |peer| peer.name);
        if peer == user {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "requirepeer specifies \"{user}\", but the server runs as \"{peer}\""
        )))
    }
}

/// Those of a host, by its name or in numbers.
async fn addresses(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let name = name.to_owned();
    aside("name-look-up", move || {
        (name.as_str(), port)
            .to_socket_addrs()
            .map(Iterator::collect)
    })
    .await?
}

/// The socket in a directory, or the abstract one behind `@`.
async fn connect_unix(directory: &Path, port: u16) -> io::Result<UnixStream> {
    let path = directory.join(format!(".s.PGSQL.{port}"));
    let Some(name) = path.to_str().and_then(|path| path.strip_prefix('@')) else {
        return UnixStream::connect(path).await;
    };
    let address = net::SocketAddr::from_abstract_name(name)?;
    let stream = net::UnixStream::connect_addr(&address)?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
