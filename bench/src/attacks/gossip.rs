//! Attacks of peers that send transactions, blocks and messages of application chains.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use alloy_rlp::Encodable;
use chain::rules::body::transactions_root;
use network::testing::{
    ANNOUNCED_TRANSACTIONS_MAX, AnnouncedTransaction, ETH_VERSIONS_OFFERED, Entropy, HeadersRequest,
    HeadersStart, MESSAGE_TRANSACTIONS_MAX, PeerMessage,
};
use network::{ApplicationChainMessage, WireFamily};
use primitives::{
    Address, B256, Block, EMPTY_ROOT, Header, SecretKey, Transaction, TxForm, U256, UnsignedTransaction,
};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use super::honest_chain::HonestChain;
use super::played::PlayedNode;
use super::scene::{AttackScene, AttackTarget};
use super::{Attack, AttackDone, HonestTimes};
use crate::Failure;

/// Different messages with signatures, and how many are sent in all.
const SIGNATURE_PACKS: u64 = 4;
const SIGNATURE_MESSAGES: u64 = 48;
/// Such messages on one connection.
const MESSAGES_BEFORE_LEAVING: u64 = 8;
/// Peers that send blocks without a seal.
const BLOCK_SENDERS: u32 = 4;
/// The time by which such blocks are ahead of the clock.
const BLOCK_AHEAD: Duration = Duration::from_secs(30);
/// Blocks of one sender that wait to be written.
const BLOCK_BACKLOG_MAX: usize = 1 << 20;
/// Time between two honest blocks or transactions. The timestamp of each block is a second later.
const HONEST_INTERVAL: Duration = Duration::from_millis(1200);
/// The largest good median of the times of honest blocks.
const HONEST_BLOCK_MAX: Duration = Duration::from_millis(100);
/// Messages of application chains, and the length of their content.
const CHAIN_MESSAGES: u64 = 64;
const CHAIN_CONTENT_LEN: usize = (10 << 20) - 4096;
/// Peers that announce transactions and send none.
const LOST_ANNOUNCERS: u32 = 16;
/// Messages of each of them, with as many hashes as there may be.
const LOST_MESSAGES: u32 = 2;
/// Time between two announcements of the same transactions.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(3);
/// Longest time until the node asks for an honest transaction.
const ASKED_MAX: Duration = Duration::from_secs(2);
/// The chain id of the network `classic`.
const CLASSIC_CHAIN_ID: u64 = 61;
/// Pause between two looks at a connection.
const LOOK_TIME: Duration = Duration::from_millis(5);

async fn join(target: &AttackTarget, attacker: u32, entropy: &mut Entropy) -> Result<PlayedNode, Failure> {
    let source = target.sources.attacker(attacker);
    PlayedNode::join(&target.contact, target.family, source, entropy).await
}

/// Messages that are made before an attack begins, because that takes time. They are sent again and
/// again, as their codes and their RLP.
#[derive(Default)]
pub(super) struct AttackMaterial {
    messages: Vec<(u64, Vec<u8>)>,
    body: Option<UnsealedBody>,
    /// An honest chain.
    pub(super) chain: Option<HonestChain>,
}

/// Makes what `attack` needs.
pub(super) async fn prepare(attack: Attack, target: &AttackTarget) -> Result<AttackMaterial, Failure> {
    let protocol = WireFamily::Mc.protocol(63).ok_or("no mc/63")?;
    let mut material = AttackMaterial::default();
    match attack {
        Attack::Signatures => {
            let packs = signature_packs(target.network_id, &Entropy::from_system()?.secret_key());
            material.messages = packs.iter().map(|pack| pack.encode(protocol)).collect();
        }
        Attack::SlowHeaders => material.chain = Some(HonestChain::start().await?),
        Attack::UnsealedBlocks => material.body = Some(UnsealedBody::new()),
        Attack::LostTransactions => {
            let version = ETH_VERSIONS_OFFERED.iter().max().ok_or("no version of eth")?;
            let eth = WireFamily::Eth
                .protocol(*version)
                .ok_or("no such version of eth")?;
            let mut entropy = Entropy::from_system()?;
            for _ in 0..LOST_ANNOUNCERS * LOST_MESSAGES {
                let hashes = (0..ANNOUNCED_TRANSACTIONS_MAX).map(|_| B256::from(entropy.bytes::<32>()));
                material.messages.push(announcement(hashes).encode(eth));
            }
        }
        Attack::ChainMessages => {
            let messages = (0..CHAIN_MESSAGES).map(chain_message);
            material.messages = messages.map(|message| message.encode(protocol)).collect();
        }
        _ => {}
    }
    Ok(material)
}

/// A transaction of somebody without money.
fn unpaid_transaction() -> UnsignedTransaction {
    UnsignedTransaction {
        gas_price: U256::from(20_000_000_000_u64),
        gas: 21_000,
        to: Some(Address::repeat_byte(7)),
        value: U256::from(1),
        ..UnsignedTransaction::default()
    }
}

/// Messages with as many signatures as there may be. All but their nonces are the same, so they are
/// short when they are compressed.
fn signature_packs(network_id: u64, key: &SecretKey) -> Vec<PeerMessage> {
    let signed = unpaid_transaction().sign(key, network_id, TxForm::Native);
    let pack = |index: u64| {
        let with_nonce = |tx_nonce| Transaction {
            tx_nonce,
            ..signed.clone()
        };
        let first = index * MESSAGE_TRANSACTIONS_MAX as u64;
        let nonces = first..first + MESSAGE_TRANSACTIONS_MAX as u64;
        PeerMessage::Transactions(nonces.map(with_nonce).collect())
    };
    (0..SIGNATURE_PACKS).map(pack).collect()
}

/// A message of an application chain that is as long as it may be.
fn chain_message(mark: u64) -> PeerMessage {
    let content = vec![0; CHAIN_CONTENT_LEN];
    PeerMessage::ApplicationChain(Box::new(ApplicationChainMessage {
        request_id: mark.to_be_bytes().to_vec().into(),
        is_request: true,
        scs_id: b"scs".to_vec().into(),
        content: content.into(),
        ..ApplicationChainMessage::default()
    }))
}

/// Sends messages with many signatures, leaves, and comes back with a new key.
pub(super) async fn send_signatures(
    target: &AttackTarget,
    material: &AttackMaterial,
    end: Instant,
) -> Result<AttackDone, Failure> {
    let mut entropy = Entropy::from_system()?;
    let packs = &material.messages;
    let (mut count, mut visits) = (0, 0);
    while Instant::now() < end && count < SIGNATURE_MESSAGES {
        let left = end.saturating_duration_since(Instant::now());
        visits += 1;
        let visit = async {
            let mut peer = join(target, visits, &mut entropy).await?;
            for _ in 0..MESSAGES_BEFORE_LEAVING {
                let (code, rlp) = &packs[(count % SIGNATURE_PACKS) as usize];
                peer.connection.send(0, *code, rlp)?;
                peer.flush().await?;
                count += 1;
            }
            Ok::<(), Failure>(())
        };
        if !matches!(timeout(left, visit).await, Ok(Ok(()))) {
            sleep(LOOK_TIME).await;
        }
    }
    sleep_until(end.into()).await;
    Ok(AttackDone::times(count))
}

/// RLP of a list of what is RLP already.
fn list_of(parts: &[&[u8]]) -> Vec<u8> {
    let payload_length = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(payload_length + 9);
    alloy_rlp::Header {
        list: true,
        payload_length,
    }
    .encode(&mut out);
    for part in parts {
        out.extend_from_slice(part);
    }
    out
}

/// The parts of a block without a seal, but for its header.
#[derive(Debug)]
struct UnsealedBody {
    transactions_root: B256,
    transactions: Vec<u8>,
}

impl UnsealedBody {
    fn new() -> Self {
        let empty = Transaction {
            form: TxForm::Native,
            syscnt: 0,
            gas_price: U256::ZERO,
            to: None,
            input: Default::default(),
            ..Transaction::system(0)
        };
        let transactions = vec![empty; MESSAGE_TRANSACTIONS_MAX];
        let root = transactions_root(&transactions);
        let block = Block {
            transactions,
            ..Block::default()
        };
        let mut list = Vec::new();
        block.transactions.encode(&mut list);
        Self {
            transactions_root: root,
            transactions: list,
        }
    }

    /// The RLP of a message with a block on `parent`. `mark` makes its hash another one.
    fn message(&self, parent: &Header, total_difficulty: U256, mark: u64) -> Vec<u8> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let header = Header {
            parent_hash: parent.hash(),
            number: parent.number + 1,
            timestamp: (now + BLOCK_AHEAD).as_secs(),
            transactions_root: self.transactions_root,
            receipts_root: EMPTY_ROOT,
            extra_data: mark.to_be_bytes().to_vec().into(),
            mix_hash: B256::repeat_byte(1),
            ..parent.clone()
        };
        let header_rlp = alloy_rlp::encode(&header);
        let block = list_of(&[&header_rlp, &self.transactions, &[0xc0]]);
        list_of(&[&block, &alloy_rlp::encode(total_difficulty + header.difficulty)])
    }
}

/// Sends blocks without a seal from several peers, while the honest node makes blocks.
pub(super) async fn send_unsealed_blocks(
    scene: &AttackScene,
    material: AttackMaterial,
    end: Instant,
) -> Result<AttackDone, Failure> {
    let body = Arc::new(material.body.ok_or("no body")?);
    let mut attackers = JoinSet::new();
    for attacker in 0..BLOCK_SENDERS {
        let (target, body) = (scene.target().clone(), Arc::clone(&body));
        attackers.spawn(async move {
            let (mut count, mut source) = (0, attacker);
            while Instant::now() < end {
                let left = end.saturating_duration_since(Instant::now());
                let visit = send_blocks_until_dropped(&target, source, &body, &mut count);
                if !matches!(timeout(left, visit).await, Ok(Ok(()))) {
                    // The node lets an address in again only after a while.
                    source += BLOCK_SENDERS;
                    sleep(LOOK_TIME).await;
                }
            }
            count
        });
    }
    let mut honest = HonestTimes {
        what: "the times until an honest block was head",
        times: Vec::new(),
        missing: 0,
        median_max: HONEST_BLOCK_MAX,
    };
    while Instant::now() + HONEST_INTERVAL < end {
        sleep(HONEST_INTERVAL).await;
        scene.mine_honest_block()?;
        let left = end.saturating_duration_since(Instant::now());
        if left < HONEST_BLOCK_MAX {
            // The search took the time that was left. Nothing can be said of this block.
            break;
        }
        match scene.wait_for_agreement(left) {
            Some(time) => honest.times.push(time),
            None => honest.missing += 1,
        }
    }
    Ok(AttackDone {
        count: attackers.join_all().await.iter().sum(),
        judged: None,
        honest: Some(honest),
    })
}

async fn send_blocks_until_dropped(
    target: &AttackTarget,
    attacker: u32,
    body: &UnsealedBody,
    count: &mut u64,
) -> Result<(), Failure> {
    let mut entropy = Entropy::from_system()?;
    let source = target.sources.attacker(attacker);
    let mut peer = PlayedNode::dial(&target.contact, target.family, source, &mut entropy).await?;
    let status = peer.greet(|_| {}).await?;
    let head = HeadersRequest {
        start: HeadersStart::Hash(status.head),
        amount: 1,
        skip: 0,
        reverse: false,
    };
    let parent = peer.header(head).await?;
    let empty = PeerMessage::NewBlock(Arc::default(), U256::ZERO);
    let (code, _) = peer.encode(&empty);
    let mut mark = u64::from(attacker) << 32;
    loop {
        mark += 1;
        let message = body.message(&parent, status.total_difficulty, mark + (*count << 8));
        peer.connection.send(0, code, &message)?;
        *count += 1;
        while peer.connection.backlog() > BLOCK_BACKLOG_MAX {
            peer.flush().await?;
        }
        // The questions of the node are not answered.
        if let Ok(next) = timeout(LOOK_TIME, peer.next()).await {
            next?;
        }
    }
}

/// Sends long messages of an application chain, while another peer reads nothing.
pub(super) async fn send_chain_messages(
    target: &AttackTarget,
    material: &AttackMaterial,
    end: Instant,
) -> Result<AttackDone, Failure> {
    let mut entropy = Entropy::from_system()?;
    let mut slow = join(target, 1, &mut entropy).await?;
    slow.flush().await?;
    let mut count = 0;
    let send = async {
        let mut peer = join(target, 0, &mut entropy).await?;
        for (code, rlp) in &material.messages {
            peer.connection.send(0, *code, rlp)?;
            peer.flush().await?;
            count += 1;
        }
        Ok::<(), Failure>(())
    };
    // The node may end the connection.
    let _ = timeout(end.saturating_duration_since(Instant::now()), send).await;
    sleep_until(end.into()).await;
    drop(slow);
    Ok(AttackDone::times(count))
}

/// Announces transactions that never come, from many peers. Then an honest peer announces one.
pub(super) async fn lose_announcements(
    target: &AttackTarget,
    material: AttackMaterial,
    end: Instant,
) -> Result<AttackDone, Failure> {
    let messages = Arc::new(material.messages);
    let mut attackers = JoinSet::new();
    for attacker in 0..LOST_ANNOUNCERS {
        let (target, messages) = (target.clone(), Arc::clone(&messages));
        attackers.spawn(async move {
            let (mut count, mut source) = (0, attacker);
            while Instant::now() < end {
                let left = end.saturating_duration_since(Instant::now());
                let visit = announce_until_dropped(&target, source, &messages, &mut count);
                if !matches!(timeout(left, visit).await, Ok(Ok(()))) {
                    // The node lets an address in again only after a while.
                    source += LOST_ANNOUNCERS;
                    sleep(LOOK_TIME).await;
                }
            }
            count
        });
    }
    // The attackers come first.
    sleep(Duration::from_secs(2)).await;
    let mut honest = HonestTimes {
        what: "the times until an honest transaction was asked for",
        times: Vec::new(),
        missing: 0,
        median_max: ASKED_MAX,
    };
    let mut entropy = Entropy::from_system()?;
    let source = target.sources.honest();
    let mut peer = PlayedNode::join(&target.contact, target.family, source, &mut entropy).await?;
    loop {
        let transaction =
            unpaid_transaction().sign(&entropy.secret_key(), CLASSIC_CHAIN_ID, TxForm::Ethereum);
        let wanted = transaction.hash();
        let begun = Instant::now();
        peer.send(&announcement([wanted]))?;
        let asked = async {
            loop {
                if let PeerMessage::GetPooledTransactions(id, hashes) = peer.next().await? {
                    let is_wanted = hashes.contains(&wanted);
                    let answer = is_wanted.then(|| transaction.clone()).into_iter().collect();
                    peer.send(&PeerMessage::PooledTransactions(id, answer))?;
                    peer.flush().await?;
                    if is_wanted {
                        return Ok::<(), Failure>(());
                    }
                }
            }
        };
        match timeout(ASKED_MAX, asked).await {
            Ok(Ok(())) => honest.times.push(begun.elapsed()),
            Ok(Err(_)) | Err(_) => honest.missing += 1,
        }
        if Instant::now() + ASKED_MAX >= end {
            break;
        }
        sleep(HONEST_INTERVAL).await;
    }
    Ok(AttackDone {
        count: attackers.join_all().await.iter().sum(),
        judged: None,
        honest: Some(honest),
    })
}

/// An announcement of transactions with these hashes.
fn announcement(hashes: impl IntoIterator<Item = B256>) -> PeerMessage {
    let announced = |hash| AnnouncedTransaction {
        hash,
        kind_and_size: Some((0, 110)),
    };
    PeerMessage::NewPooledTransactionHashes(hashes.into_iter().map(announced).collect())
}

async fn announce_until_dropped(
    target: &AttackTarget,
    attacker: u32,
    messages: &[(u64, Vec<u8>)],
    count: &mut u64,
) -> Result<(), Failure> {
    let mut entropy = Entropy::from_system()?;
    let mut peer = join(target, attacker, &mut entropy).await?;
    let own = attacker % LOST_ANNOUNCERS * LOST_MESSAGES;
    let own = messages.iter().skip(own as usize).take(LOST_MESSAGES as usize);
    // Again and again, so that the list stays full.
    loop {
        for (code, rlp) in own.clone() {
            peer.connection.send(0, *code, rlp)?;
            *count += 1;
            peer.flush().await?;
        }
        let rest = timeout(ANNOUNCE_INTERVAL, async {
            loop {
                if let Err(error) = peer.next().await {
                    return error;
                }
            }
        });
        if let Ok(error) = rest.await {
            return Err(error);
        }
    }
}
