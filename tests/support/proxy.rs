//! A TCP relay in front of a server or pooler, which counts round trips, delays, stalls and cuts.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use super::pooler::Pooler;
use super::server::Server;

/// A listening relay. Dropped, it cuts its connections and listens no more.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    target: SockAddr,
    delay: Mutex<Duration>,
    /// How many flights of a connection are let through.
    most_flights: usize,
    closed: AtomicBool,
    frozen: Mutex<bool>,
    thawed: Condvar,
    connections: Mutex<Vec<Known>>,
}

/// What is remembered of a connection; its sockets are closed as soon as nobody relays any more.
struct Known {
    connection: Weak<Connection>,
    turns: Arc<Mutex<Turns>>,
}

struct Connection {
    client: Socket,
    server: Socket,
    turns: Arc<Mutex<Turns>>,
    /// It is to end without a farewell.
    reset: AtomicBool,
}

/// Who spoke last, and how often the client began to.
#[derive(Default)]
struct Turns {
    client_spoke_last: bool,
    flights: usize,
}

#[derive(Clone, Copy)]
enum Direction {
    ToServer,
    ToClient,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1 and relays to the server's TCP port.
    pub fn to(server: &Server) -> Self {
        Self::with_delay(server, Duration::ZERO)
    }

    /// The same in front of a pooler, which itself has a Unix socket only.
    pub fn to_pooler(pooler: &Pooler) -> Self {
        let target = SockAddr::unix(pooler.socket()).expect("a short path");
        Self::toward(target, Duration::ZERO, usize::MAX)
    }

    /// The same, and each piece of data arrives this much later: a round trip takes twice the delay.
    pub fn with_delay(server: &Server, delay: Duration) -> Self {
        let host: IpAddr = server.host().parse().expect("a numeric address");
        Self::toward(
            SocketAddr::new(host, server.port()).into(),
            delay,
            usize::MAX,
        )
    }

    /// Cuts each connection when the client has sent so often, before that arrives.
    pub fn cutting_after(server: &Server, flights: usize) -> Self {
        let host: IpAddr = server.host().parse().expect("a numeric address");
        let target = SocketAddr::new(host, server.port()).into();
        Self::toward(target, Duration::ZERO, flights)
    }

    fn toward(target: SockAddr, delay: Duration, most_flights: usize) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let port = listener
            .local_addr()
            .expect("a listener has an address")
            .port();
        let shared = Arc::new(Shared {
            target,
            delay: Mutex::new(delay),
            most_flights,
            closed: AtomicBool::new(false),
            frozen: Mutex::new(false),
            thawed: Condvar::new(),
            connections: Mutex::new(Vec::new()),
        });
        let theirs = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &theirs));
        Self { port, shared }
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The variables that lead a client through here, to be put over those of the server.
    pub fn env(&self) -> [(&'static str, String); 2] {
        [
            ("PGHOST", "127.0.0.1".to_owned()),
            ("PGPORT", self.port.to_string()),
        ]
    }

    /// For each connection since the start, how often the client sent after the server had spoken.
    ///
    /// The first packet counts, so this is the number of round trips, and one more for the good-bye that a client
    /// sends without awaiting an answer.
    pub fn flights(&self) -> Vec<usize> {
        let connections = self.shared.connections.lock().unwrap();
        connections
            .iter()
            .map(|each| each.turns.lock().unwrap().flights)
            .collect()
    }

    /// From now on each piece of data arrives this much later.
    pub fn set_delay(&self, delay: Duration) {
        *self.shared.delay.lock().unwrap() = delay;
    }

    /// Closes all connections; new ones are taken.
    pub fn cut(&self) {
        self.shared
            .open_connections()
            .iter()
            .for_each(|each| each.close());
    }

    /// Resets all connections, as a firewall does that forgot them (RST); new ones are taken.
    pub fn reset(&self) {
        self.shared
            .open_connections()
            .iter()
            .for_each(|each| each.reset());
    }

    /// Keeps back all data, in both directions, as a network does that loses everything.
    pub fn freeze(&self) {
        *self.shared.frozen.lock().unwrap() = true;
    }

    /// Lets the data through that [`Self::freeze`] kept back, and all that follows.
    pub fn thaw(&self) {
        *self.shared.frozen.lock().unwrap() = false;
        self.shared.thawed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.cut();
        self.thaw();
        // Wakes the accepting thread, which then sees that it is over.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl Shared {
    fn open_connections(&self) -> Vec<Arc<Connection>> {
        let connections = self.connections.lock().unwrap();
        let open = connections.iter();
        open.filter_map(|each| each.connection.upgrade()).collect()
    }

    fn let_pass(&self) {
        let delay = *self.delay.lock().unwrap();
        thread::sleep(delay);
        let frozen = self.frozen.lock().unwrap();
        drop(self.thawed.wait_while(frozen, |frozen| *frozen));
    }
}

impl Connection {
    fn close(&self) {
        // An error means that the other side was first.
        drop(self.client.shutdown(Shutdown::Both));
        drop(self.server.shutdown(Shutdown::Both));
    }

    fn reset(&self) {
        self.reset.store(true, Ordering::SeqCst);
        for socket in [&self.client, &self.server] {
            // Closing then sends RST (socket(7), SO_LINGER); to end what is read sends nothing, and wakes who relays.
            drop(socket.set_linger(Some(Duration::ZERO)));
            drop(socket.shutdown(Shutdown::Read));
        }
    }

    /// How often the client has begun to speak, with this.
    fn note(&self, direction: Direction) -> usize {
        let mut turns = self.turns.lock().unwrap();
        let from_client = matches!(direction, Direction::ToServer);
        turns.flights += usize::from(from_client && !turns.client_spoke_last);
        turns.client_spoke_last = from_client;
        turns.flights
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming().map_while(Result::ok) {
        if shared.closed.load(Ordering::SeqCst) {
            return;
        }
        // A server that is down is met by the client as a connection that closes at once.
        let Ok(server) = connect(&shared.target) else {
            continue;
        };
        let client = Socket::from(client);
        // The proxy must not add the delays of Nagle's algorithm to those it is asked for.
        for socket in [&client, &server] {
            let is_tcp = socket.domain().expect("a socket has a family") != Domain::UNIX;
            if is_tcp {
                socket.set_tcp_nodelay(true).expect("TCP takes it");
            }
        }
        let turns = Arc::default();
        let connection = Arc::new(Connection {
            client,
            server,
            turns: Arc::clone(&turns),
            reset: AtomicBool::new(false),
        });
        shared.connections.lock().unwrap().push(Known {
            connection: Arc::downgrade(&connection),
            turns,
        });
        for direction in [Direction::ToServer, Direction::ToClient] {
            let (shared, connection) = (Arc::clone(shared), Arc::clone(&connection));
            thread::spawn(move || relay(direction, &connection, &shared));
        }
    }
}

fn connect(target: &SockAddr) -> std::io::Result<Socket> {
    let socket = Socket::new(target.domain(), Type::STREAM, None)?;
    socket.connect(target)?;
    Ok(socket)
}

fn relay(direction: Direction, connection: &Connection, shared: &Shared) {
    let (mut from, mut to) = match direction {
        Direction::ToServer => (&connection.client, &connection.server),
        Direction::ToClient => (&connection.server, &connection.client),
    };
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        // Before it is passed on, or the answer could be noted first.
        if connection.note(direction) > shared.most_flights {
            connection.close();
        }
        shared.let_pass();
        if to.write_all(&buffer[..count]).is_err() {
            connection.close();
        }
    }
    if !connection.reset.load(Ordering::SeqCst) {
        drop(to.shutdown(Shutdown::Write));
    }
}
