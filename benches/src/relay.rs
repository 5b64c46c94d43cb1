//! A relay in front of a server that is as far away as wanted: what is sent arrives later, by half a round trip.
//!
//! Several pieces can be under way at once, as in a network. The relay itself opens the connection, so the handshake of TCP has no
//! delay; it meets all alike.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::sys::prctl::set_timerslack;

/// Listens on a free port of 127.0.0.1 until it is dropped.
pub struct Relay {
    address: SocketAddr,
    is_closed: Arc<AtomicBool>,
}

/// Bytes, and when they are to arrive.
type Piece = (Instant, Vec<u8>);

impl Relay {
    /// Each round trip through it takes so much longer.
    pub fn to(target: SocketAddr, round_trip: Duration) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let is_closed = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_closed);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if seen.load(Ordering::SeqCst) {
                    return;
                }
                // Who cannot be relayed sees the connection close.
                drop(connect(client, target, round_trip / 2));
            }
        });
        Ok(Self { address, is_closed })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
    }
}

fn connect(client: TcpStream, target: SocketAddr, delay: Duration) -> Result<()> {
    let server = TcpStream::connect(target)?;
    for socket in [&client, &server] {
        socket.set_nodelay(true)?;
    }
    let (to_server, to_client) = (server.try_clone()?, client.try_clone()?);
    for (from, to) in [(client, to_server), (server, to_client)] {
        let (sender, receiver) = channel();
        thread::spawn(move || receive(from, delay, &sender));
        thread::spawn(move || deliver(to, &receiver));
    }
    Ok(())
}

fn receive(mut from: TcpStream, delay: Duration, pieces: &Sender<Piece>) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let piece = (Instant::now() + delay, buffer[..count].to_vec());
        if pieces.send(piece).is_err() {
            return;
        }
    }
}

fn deliver(mut to: TcpStream, pieces: &Receiver<Piece>) {
    // By default a thread sleeps up to 50 µs longer. An error means just that.
    let _ = set_timerslack(1);
    for (due, bytes) in pieces {
        sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Write));
}
