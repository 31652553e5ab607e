//! A link between two nodes: it passes TCP connections on, with a delay, until it is cut. It can
//! change what the target answers.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
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
    lie: Arc<LinkLie>,
}

/// A change of what a target answers.
#[derive(Debug, Default)]
struct LinkLie {
    /// Bytes, and those that come out in their place.
    words: Mutex<Option<(Vec<u8>, Vec<u8>)>>,
    told: AtomicUsize,
}

impl LinkLie {
    /// Changes what one read has brought. Words that are parted between two reads stay.
    fn tell(&self, bytes: &mut [u8]) {
        let words = self.words.lock().expect("no holder panics");
        let Some((from, to)) = &*words else { return };
        let mut at = 0;
        while let Some(found) = bytes[at..].windows(from.len()).position(|part| part == from) {
            at += found;
            bytes[at..at + to.len()].copy_from_slice(to);
            at += to.len();
            self.told.fetch_add(1, Ordering::Relaxed);
        }
    }
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
        let lie = Arc::<LinkLie>::default();
        tokio::spawn(accept(listener, target, delay, state, Arc::clone(&lie)));
        Ok(Self {
            address,
            is_cut: Arc::new(is_cut),
            lie,
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

    /// From now on the second word, which is as long, comes out in place of the first one wherever
    /// the target answers with it in plain text.
    ///
    /// # Panics
    /// If the words are not equally long, or empty.
    pub fn lie(&self, words: Option<(&[u8], &[u8])>) {
        let words = words.map(|(from, to)| {
            assert!(from.len() == to.len() && !from.is_empty(), "words of one length");
            (from.to_vec(), to.to_vec())
        });
        *self.lie.words.lock().expect("no holder panics") = words;
    }

    /// The words that were changed.
    pub fn lies_told(&self) -> usize {
        self.lie.told.load(Ordering::Relaxed)
    }

    /// Lets connections through again.
    pub fn mend(&self) {
        self.is_cut.send_replace(false);
    }
}

async fn accept(
    listener: TcpListener,
    target: SocketAddr,
    delay: Duration,
    state: watch::Receiver<bool>,
    lie: Arc<LinkLie>,
) {
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
        let (state, lie) = (state.clone(), Arc::clone(&lie));
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
                () = carry(near_in, far_out, delay, None) => {}
                () = carry(far_in, near_out, delay, Some(&lie)) => {}
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
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration, lie: Option<&LinkLie>) {
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
            if let Some(lie) = lie {
                lie.tell(&mut bytes[..count]);
            }
            if count == 0 || sender.send((due, bytes[..count].to_vec())).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}
