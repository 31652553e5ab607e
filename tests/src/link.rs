//! A link between two nodes: it passes TCP connections on, with a delay, until it is cut.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

/// Bytes of one read.
const READ_BYTES: usize = 16 << 10;
/// Reads that are under way in one direction.
const READS_MAX: usize = 4096;

/// A link to an address. Dropping it cuts it.
#[derive(Debug)]
pub struct TestLink {
    address: SocketAddr,
    is_cut: Arc<watch::Sender<bool>>,
}

impl TestLink {
    /// Opens a link to `target` on the runtime of the caller. What goes in comes out after `delay`,
    /// in both directions.
    ///
    /// # Errors
    /// If the system has no free port.
    pub async fn open(target: SocketAddr, delay: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (is_cut, state) = watch::channel(false);
        tokio::spawn(accept(listener, target, delay, state));
        Ok(Self {
            address,
            is_cut: Arc::new(is_cut),
        })
    }

    /// The address at which the link begins.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all connections and lets none through until it is mended.
    pub fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Lets connections through again.
    pub fn mend(&self) {
        self.is_cut.send_replace(false);
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, delay: Duration, state: watch::Receiver<bool>) {
    let mut ended = state.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = dropped(&mut ended) => return,
        };
        let Ok((near, _)) = accepted else { continue };
        if *state.borrow() {
            continue;
        }
        let state = state.clone();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            let Ok(far) = TcpStream::connect(target).await else {
                return;
            };
            // Without this, small messages would wait for each other.
            let _ = (near.set_nodelay(true), far.set_nodelay(true));
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            let mut cut = state;
            tokio::select! {
                () = carry(near_in, far_out, delay) => {}
                () = carry(far_in, near_out, delay) => {}
                () = is_cut(&mut cut) => {}
            }
        });
    }
}

/// Waits until the link is dropped.
async fn dropped(state: &mut watch::Receiver<bool>) {
    while state.changed().await.is_ok() {}
}

/// Waits until the link is cut or dropped.
async fn is_cut(state: &mut watch::Receiver<bool>) {
    // An error means that it is dropped.
    let _ = state.wait_for(|is_cut| *is_cut).await;
}

/// Carries bytes until one end closes.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) {
    let (sender, mut inbox) = mpsc::channel::<(Instant, Vec<u8>)>(READS_MAX);
    let write = async move {
        while let Some((due, bytes)) = inbox.recv().await {
            sleep_until(due).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    };
    let read = async move {
        let mut bytes = vec![0; READ_BYTES];
        while let Ok(count) = from.read(&mut bytes).await {
            let due = Instant::now() + delay;
            if count == 0 || sender.send((due, bytes[..count].to_vec())).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}
