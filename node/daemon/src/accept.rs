//! The loop that accepts connections, the same for all servers.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Pause after a failed accept, for example because no file descriptor was free.
const PAUSE: Duration = Duration::from_millis(100);
/// Shortest time between two warnings about failed accepts.
const WARN_INTERVAL: Duration = Duration::from_secs(5);

/// Takes connections from the system.
pub trait Listener: Send {
    /// A connection, with what is known about its other side.
    type Connection;

    /// Waits for the next connection. Dropping the future loses none.
    fn accept(&mut self) -> impl Future<Output = io::Result<Self::Connection>> + Send;
}

impl Listener for TcpListener {
    type Connection = (TcpStream, SocketAddr);

    async fn accept(&mut self) -> io::Result<Self::Connection> {
        Self::accept(self).await
    }
}

/// The text for an address that cannot be listened on, with the option that gives it.
pub fn listen_text(address: &impl fmt::Display, reason: &io::Error, option: &str) -> String {
    match reason.kind() {
        io::ErrorKind::AddrInUse => format!("cannot listen on {address}: address already in use: {option}"),
        _ => format!("cannot listen on {address}: {reason}: {option}"),
    }
}

/// Accepts connections until `stop` becomes true or its sender is dropped.
///
/// `admit` returns the task that serves a connection, or `None` if there is no place for it.
/// `server` names the server in warnings. Returns the tasks that have not ended, with the address
/// free again. Dropping them ends the connections.
pub async fn accept<L: Listener, T>(
    mut listener: L,
    server: &str,
    mut stop: watch::Receiver<bool>,
    mut admit: impl FnMut(L::Connection) -> Option<T>,
) -> JoinSet<()>
where
    T: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    let mut warned_at: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            biased;
            () = stopped(&mut stop) => return connections,
            // Removes connections that have ended.
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(connection) => {
                if let Some(task) = admit(connection) {
                    connections.spawn(task);
                }
            }
            Err(error) => {
                if warned_at.is_none_or(|at| at.elapsed() >= WARN_INTERVAL) {
                    tracing::warn!(%error, "{server} cannot accept a connection");
                    warned_at = Some(Instant::now());
                }
                tokio::select! {
                    () = stopped(&mut stop) => return connections,
                    () = tokio::time::sleep(PAUSE) => {}
                }
            }
        }
    }
}

/// Waits until `stop` becomes true or its sender is dropped.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender was dropped.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Waits until all of `connections` have ended.
pub async fn all_ended(mut connections: JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    /// Gives what comes through a channel.
    struct Scripted(mpsc::UnboundedReceiver<io::Result<u32>>);

    impl Listener for Scripted {
        type Connection = u32;

        async fn accept(&mut self) -> io::Result<u32> {
            match self.0.recv().await {
                Some(next) => next,
                None => std::future::pending().await,
            }
        }
    }

    #[tokio::test]
    async fn errors_and_full_servers_end_no_loop() {
        let (script, scripted) = mpsc::unbounded_channel();
        for next in [Ok(1), Err(io::ErrorKind::Other.into()), Ok(2), Ok(3)] {
            script.send(next).expect("it listens");
        }
        let (stop, stopped) = watch::channel(false);
        let (served_out, mut served) = mpsc::unbounded_channel();
        let running = tokio::spawn(accept(Scripted(scripted), "a server", stopped, move |number| {
            let served = served_out.clone();
            (number != 2).then_some(async move {
                served.send(number).expect("it is read");
                std::future::pending::<()>().await;
            })
        }));
        assert_eq!((served.recv().await, served.recv().await), (Some(1), Some(3)));
        stop.send_replace(true);
        let left = running.await.expect("no panic");
        assert_eq!(left.len(), 2);
        drop(left);
        assert_eq!(served.recv().await, None, "the connections have ended");
    }
}
