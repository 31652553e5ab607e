//! Connections over loopback with a chain that the tests control.

use std::net::SocketAddr;

use chain::ChainSpec;
use primitives::{Address, Transaction, TxForm, U256};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::core::CoreInboxes;
use super::*;
use crate::messages::{ApplicationChainMessage, PeerMessage, PeerStatus, WireProtocol};
use crate::nat::NatGateway;
use crate::nat::recording_gateway::RecordingGateway;
use crate::peers::stub_chain::StubChain;
use crate::peers::{ChainHead, JUDGED_TRANSACTIONS_MIN, TransactionVerdict, WORTHLESS_PAUSE};
use crate::rlpx::{HandshakeForm, PeerConnection, RlpxDisconnect, RlpxSettings};
use crate::service::offers::LAST_TRANSACTIONS_MAX;
use crate::service::outbox::OUTBOX_BYTES_MAX;
use crate::testing::loopback_settings;

/// Expected events happen in this time.
const LIMIT: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(20);

/// A node without discovery, timers and import.
struct TestNode {
    core: Arc<Core>,
    _inboxes: CoreInboxes,
    listener: TcpListener,
}

fn key(byte: u8) -> SecretKey {
    SecretKey::from_bytes(&[byte; 32]).expect("in range")
}

fn rlpx() -> RlpxSettings {
    RlpxSettings {
        version: 5,
        client: "test/1".to_owned(),
        capabilities: WireFamily::Mc.offers(),
        port: 0,
        message_bytes_max: WireFamily::Mc.message_bytes_max(),
    }
}

const fn head() -> ChainHead {
    ChainHead {
        number: 0,
        hash: B256::repeat_byte(1),
        total_difficulty: U256::from_limbs([100, 0, 0, 0]),
    }
}

impl TestNode {
    async fn start(chain: Arc<StubChain>) -> Self {
        let settings = HubSettings {
            family: WireFamily::Mc,
            network_id: 99,
            genesis: head().hash,
            forks: None,
            peers_max: 20,
            inbound_max: 20,
        };
        let (core, inboxes) = Core::new(CoreParts {
            hub: PeerHub::new(settings, chain.clone(), head(), Entropy::from_seed([1; 32])),
            dialer: Dialer::new(
                DialSettings {
                    peers_max: 20,
                    ..DialSettings::default()
                },
                Entropy::from_seed([2; 32]),
            ),
            trusted: std::collections::BTreeSet::new(),
            chain,
            sync: SyncInbox::default(),
            sync_status: Arc::default(),
            application_chains: Arc::default(),
            is_subnet: false,
            fetches_state: false,
            bounds: Arc::default(),
        });
        Self {
            core,
            _inboxes: inboxes,
            listener: TcpListener::bind("127.0.0.1:0").await.expect("a free port"),
        }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("an address")
    }

    /// A peer whose Status fits.
    async fn join(&self, byte: u8) -> Player {
        let dial = async {
            let stream = TcpStream::connect(self.address()).await.expect("it listens");
            let (form, entropy) = (HandshakeForm::Eip8, Entropy::from_seed([byte; 32]));
            let id = key(200).public_key();
            PeerConnection::dial(stream, key(byte), id, form, rlpx(), entropy).await
        };
        let accept = async {
            let (stream, _) = self.listener.accept().await.expect("a connection");
            PeerConnection::accept(stream, key(200), rlpx(), Entropy::from_seed([byte + 1; 32])).await
        };
        let (dialled, accepted) = tokio::join!(dial, accept);
        let accepted = accepted.expect("a good handshake");
        connection::take(&self.core, WireFamily::Mc, accepted, None).expect("a place");
        let mut player = Player {
            connection: dialled.expect("a good handshake"),
            protocol: WireFamily::Mc.protocol(63).expect("known"),
        };
        let before = self.core.peers().len();
        player.send(&PeerMessage::Status(PeerStatus {
            version: 63,
            network_id: 99,
            total_difficulty: head().total_difficulty,
            head: head().hash,
            genesis: head().hash,
            fork_id: None,
        }));
        player.play_until(|| self.core.peers().len() > before).await;
        player
    }

    async fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + LIMIT;
        while !is_so() {
            assert!(Instant::now() < end, "not in time: {what}");
            sleep(STEP).await;
        }
    }
}

/// A peer that the test plays.
struct Player {
    connection: PeerConnection<TcpStream>,
    protocol: WireProtocol,
}

impl Player {
    fn send(&mut self, message: &PeerMessage) {
        let (code, rlp) = message.encode(self.protocol);
        self.connection.send(0, code, &rlp).expect("there is room");
    }

    /// Writes and reads until `is_so`. Returns why the connection has ended if it has.
    async fn play_until(&mut self, is_so: impl Fn() -> bool) -> Option<String> {
        let end = Instant::now() + LIMIT;
        while !is_so() {
            assert!(Instant::now() < end, "not in time");
            if let Ok(Err(error)) = timeout(STEP, self.connection.next()).await {
                return Some(error.to_string());
            }
        }
        None
    }

    /// Writes and reads until nothing has been written for a second. Returns what is left.
    async fn write_all_that_is_read(&mut self) -> usize {
        let (mut left, mut since) = (self.connection.backlog(), Instant::now());
        while since.elapsed() < Duration::from_secs(1) && left > 0 {
            if let Ok(Err(error)) = timeout(STEP, self.connection.next()).await {
                panic!("the connection goes on: {error}");
            }
            if self.connection.backlog() < left {
                (left, since) = (self.connection.backlog(), Instant::now());
            }
        }
        left
    }
}

/// Transactions without signatures that differ by their nonces. The input makes them as long as
/// ordinary ones.
fn transactions(first: u64, count: u64) -> PeerMessage {
    let mut entropy = Entropy::from_seed([first as u8; 32]);
    let one = |tx_nonce| Transaction {
        form: TxForm::Native,
        tx_nonce,
        gas: 21_000,
        gas_price: U256::from(1_000_000_000),
        to: Some(Address::repeat_byte(7)),
        v: U256::from(235),
        r: U256::from_be_bytes(entropy.bytes::<32>()),
        s: U256::from_be_bytes(entropy.bytes::<32>()),
        syscnt: 0,
        ..Transaction::system(tx_nonce)
    };
    PeerMessage::Transactions((first..first + count).map(one).collect())
}

/// The number of transactions in a pack of 100 KiB.
const PACK: u64 = 900;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_of_an_honest_peer_is_taken_to_the_last_transaction() {
    let chain = StubChain::new(TransactionVerdict::Taken);
    let node = TestNode::start(chain.clone()).await;
    let mut player = node.join(2).await;
    for pack in 0..5 {
        player.send(&transactions(pack * PACK, PACK));
    }
    assert_eq!(
        player.play_until(|| chain.submitted() == 5 * PACK as usize).await,
        None
    );
    node.wait_until("no memory is left behind", || {
        node.core.bounds.offered.used() == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_stops_while_transactions_wait_and_the_end_is_noticed() {
    const PACKS: usize = 24;
    let chain = StubChain::new(TransactionVerdict::Taken);
    let held = chain.hold();
    let node = TestNode::start(chain.clone()).await;
    // The pool takes nothing for now. There are more than sockets hold.
    let pack = transactions(0, 10 * PACK);
    let mut player = node.join(2).await;
    for _ in 0..PACKS {
        player.send(&pack);
    }
    let left = player.write_all_that_is_read().await;
    assert!(left > 0, "all was read");
    let received = node.core.counters().0.transactions_received;
    assert!(received <= 20 * PACK, "{received} are decoded");
    let used = node.core.bounds.offered.used();
    assert!(used <= 8 << 20, "{used} bytes wait");
    // Meanwhile other peers are served, and a small pack of theirs waits without a loss.
    let mut other = node.join(4).await;
    other.send(&transactions(1, 10));
    let before = received + 10;
    let all = || node.core.counters().0.transactions_received;
    assert_eq!(other.play_until(|| all() == before).await, None);
    // The end is noticed although unread bytes come before it.
    drop(player);
    node.wait_until("the end is noticed", || node.core.peers().len() == 1)
        .await;
    drop(held);
    node.wait_until("all memory comes back", || node.core.bounds.offered.used() == 0)
        .await;
    node.wait_until("the other's transactions", || chain.submitted() >= 10)
        .await;
    sleep(STEP * 10).await;
    // The part that was being taken, the last ones, and those of the other peer.
    let most = crate::peers::PACK_PART + LAST_TRANSACTIONS_MAX + 10;
    assert!(chain.submitted() <= most, "{}", chain.submitted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_transaction_of_a_peer_that_leaves_at_once_counts() {
    let chain = StubChain::new(TransactionVerdict::Taken);
    let held = chain.hold();
    let node = TestNode::start(chain.clone()).await;
    let mut player = node.join(2).await;
    player.send(&transactions(1, 3));
    let all = || node.core.counters().0.transactions_received;
    assert_eq!(player.play_until(|| all() == 3).await, None);
    player.connection.disconnect(RlpxDisconnect::Requested).await;
    node.wait_until("the end", || node.core.peers().is_empty()).await;
    drop(held);
    node.wait_until("they are taken", || chain.submitted() == 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_sends_worthless_transactions_pauses_and_then_leaves() {
    let chain = StubChain::new(TransactionVerdict::Worthless("unpaid".to_owned()));
    let node = TestNode::start(chain.clone()).await;
    let mut player = node.join(2).await;
    let begun = Instant::now();
    let mut end = None;
    for pack in 0.. {
        assert!(begun.elapsed() < LIMIT, "it goes on for ever");
        player.send(&transactions(pack * PACK, PACK));
        let came = node.core.counters().1.messages_in;
        end = player
            .play_until(|| node.core.counters().1.messages_in > came)
            .await;
        if end.is_some() {
            break;
        }
        sleep(STEP).await;
    }
    let end = end.expect("the connection ends");
    assert!(end.contains("subprotocol"), "{end}");
    assert!(begun.elapsed() >= WORTHLESS_PAUSE, "{:?}", begun.elapsed());
    let checked = chain.submitted();
    let most = 2 * JUDGED_TRANSACTIONS_MIN as usize + crate::peers::PACK_PART;
    assert!(checked <= most, "{checked}");
    assert_eq!(node.core.counters().0.faults, 1);
    node.wait_until("all memory comes back", || node.core.bounds.offered.used() == 0)
        .await;
    assert!(chain.submitted() <= most, "nothing of it is taken after the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_read_while_its_transactions_pause() {
    const PACKS: u64 = 10;
    let chain = StubChain::new(TransactionVerdict::Worthless("unpaid".to_owned()));
    let node = TestNode::start(chain.clone()).await;
    let mut player = node.join(2).await;
    // There are more than may wait, so an answer that the node waits for would be far behind.
    for pack in 0..PACKS {
        player.send(&transactions(pack * PACK, PACK));
    }
    let traffic = || node.core.counters().1;
    let end = player.play_until(|| traffic().messages_in == 1 + PACKS).await;
    assert_eq!(
        end, None,
        "nobody is judged by what came before it could know of the pause"
    );
    assert!(traffic().messages_left_out > 0);
    node.wait_until("no memory is left behind", || {
        node.core.bounds.offered.used() == 0
    })
    .await;
    let most = JUDGED_TRANSACTIONS_MIN as usize;
    assert_eq!(chain.submitted(), most);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_of_what_was_passed_on_use_up_no_share() {
    const PACKS: u64 = 20;
    let chain = StubChain::new(TransactionVerdict::Taken);
    let node = TestNode::start(chain).await;
    let PeerMessage::Transactions(mut flagged) = transactions(0, PACK) else {
        panic!("these are transactions");
    };
    for transaction in &mut flagged {
        transaction.sharding_flag = 1;
        let hash = transaction.hash();
        node.core
            .with_hub(|hub, _| hub.relay_transaction(hash, transaction));
    }
    let mut player = node.join(2).await;
    let pack = PeerMessage::Transactions(flagged);
    for _ in 0..PACKS {
        player.send(&pack);
    }
    let left_out = || node.core.counters().1.messages_left_out;
    let received = || node.core.counters().0.transactions_received;
    let end = player
        .play_until(|| received() == PACKS * PACK || left_out() > 0)
        .await;
    assert_eq!((end, left_out()), (None, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_no_share_is_not_decoded_after_it_comes_back() {
    // An honest peer may send them, so no peer loses its place. The work is bounded all the same.
    let chain = StubChain::new(TransactionVerdict::Refused("nonce".to_owned()));
    let node = TestNode::start(chain.clone()).await;
    let begun = Instant::now();
    for round in 0..8 {
        // On this machine each key has a share, so the key is the same.
        let mut player = node.join(2).await;
        for pack in 0..5 {
            player.send(&transactions(round * 100_000 + pack * PACK, PACK));
        }
        let left_out = || node.core.counters().1.messages_left_out;
        let before = (chain.submitted(), left_out());
        player
            .play_until(|| chain.submitted() >= before.0 + 5 * PACK as usize || left_out() > before.1)
            .await;
        player.connection.disconnect(RlpxDisconnect::Requested).await;
        node.wait_until("the end", || node.core.peers().is_empty()).await;
    }
    // The burst of the share, parts that were begun, and what has grown back meanwhile.
    let checked = chain.submitted();
    let most = 8192 + 256 * (begun.elapsed().as_secs() as usize + 1) + 8 * crate::peers::PACK_PART;
    assert!((4096..=most).contains(&checked), "{checked} of at most {most}");
    assert!(node.core.counters().1.messages_left_out > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_of_an_application_chain_keeps_few_bytes() {
    let chain = StubChain::new(TransactionVerdict::Taken);
    let node = TestNode::start(chain).await;
    // Two peers never read. Messages of 1 MiB go to both.
    let slow = [node.join(2).await, node.join(4).await];
    let mut entropy = Entropy::from_seed([9; 32]);
    for number in 0..170_u64 {
        let mut content = vec![0; 1 << 20];
        entropy.fill(&mut content[..64]);
        let message = ApplicationChainMessage {
            request_id: number.to_be_bytes().to_vec().into(),
            content: content.into(),
            ..ApplicationChainMessage::default()
        };
        let key = message.key();
        node.core.with_hub(|hub, _| hub.relay_message(key, &message));
        let used = node.core.bounds.outboxes.used();
        // Each connection may have one more in hand.
        let most = 2 * (OUTBOX_BYTES_MAX + (2 << 20));
        assert!(used <= most, "{used} bytes wait");
        tokio::task::yield_now().await;
    }
    assert_eq!(node.core.peers().len(), 2, "gossip is lost first");
    drop(slow);
    node.wait_until("the ends", || node.core.peers().is_empty()).await;
    node.wait_until("all memory comes back", || node.core.bounds.outboxes.used() == 0)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_router_passes_no_port_on_after_the_stop() {
    let node = TestNode::start(StubChain::new(TransactionVerdict::Taken)).await;
    let folder = tempfile::tempdir().expect("a folder");
    let settings = loopback_settings(key(200), &ChainSpec::dev(), folder.path());
    let sockets = NetworkSockets::bind(settings.listen, false, None).await;
    let gateway = Arc::new(RecordingGateway::default());
    let found: Option<Arc<dyn NatGateway>> = Some(gateway.clone());
    let tasks = NetworkTasks::start(
        &settings,
        &node.core,
        sockets.expect("a free port"),
        mpsc::channel(1).1,
        None,
        Box::pin(std::future::ready(found)),
        &mut Entropy::from_seed([3; 32]),
    )
    .expect("an address");
    let port = tasks.address().port();
    node.wait_until("the port is passed on", || !gateway.asked().is_empty())
        .await;
    // Readers of the status of the router live longer than the tasks.
    let _status = tasks.nat().clone();
    tasks.stop().await;
    let expected = [format!("map Tcp {port} 1200"), format!("unmap Tcp {port}")];
    node.wait_until("the mapping ends", || gateway.asked() == expected)
        .await;
}
