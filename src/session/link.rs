//! The half of a connection that does the work, and what the server says unasked.

use std::future::poll_fn;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Error};

use crate::connection;

/// Ends when the connection does, with what ended it.
pub type Link = JoinHandle<Result<(), Error>>;

/// The payloads of notifications, as they come.
pub type Notifications = UnboundedReceiver<String>;

/// Has the connection work in the background.
pub fn drive(mut link: connection::Link) -> (Link, Notifications) {
    let (sender, notifications) = unbounded_channel();
    let driven = tokio::spawn(async move {
        while let Some(message) = poll_fn(|cx| link.poll_message(cx)).await {
            if let AsyncMessage::Notification(notification) = message? {
                // Nobody waits any more.
                let _ = sender.send(notification.payload().to_owned());
            }
        }
        Ok(())
    });
    (driven, notifications)
}
