//! The ways from pglock to the server.

/// What lies between a pglock and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    Socket,
    Proxy,
    SessionPool,
    TransactionPool,
    /// A network of its own, with a cable that can be pulled.
    Link,
}

/// What a worker has to do with its lock: the way, and pglock's `--scope`.
#[derive(Clone, Copy, Debug)]
pub struct Post {
    pub way: Way,
    pub scope: &'static str,
}

const SESSION: &str = "session";
const TRANSACTION: &str = "transaction";

/// One worker for each.
pub const POSTS: [Post; 12] = [
    post(Way::Socket, SESSION),
    post(Way::Socket, SESSION),
    post(Way::Socket, TRANSACTION),
    post(Way::Proxy, SESSION),
    post(Way::Proxy, SESSION),
    post(Way::Proxy, TRANSACTION),
    post(Way::SessionPool, SESSION),
    post(Way::SessionPool, TRANSACTION),
    post(Way::TransactionPool, TRANSACTION),
    post(Way::TransactionPool, TRANSACTION),
    post(Way::Link, SESSION),
    post(Way::Link, TRANSACTION),
];

impl Way {
    pub fn is_pooled(self) -> bool {
        match self {
            Self::SessionPool | Self::TransactionPool => true,
            Self::Socket | Self::Proxy | Self::Link => false,
        }
    }
}

const fn post(way: Way, scope: &'static str) -> Post {
    Post { way, scope }
}
