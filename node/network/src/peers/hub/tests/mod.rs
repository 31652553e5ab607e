//! The hub with a chain that is a list of headers.

mod application_chains;
mod bounds;
mod floods;
mod junk;
mod late_heads;
mod required;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use primitives::{
    Address, B256, B512, Block, Header, SecretKey, Transaction, TxForm, U256, UnsignedTransaction,
};

use super::*;
use crate::messages::{
    AnnouncedBlock, AnnouncedTransaction, ApplicationChainMessage, HeadersRequest, HeadersStart, PackedBlock,
    PeerBody,
};
use crate::peers::hub::announced::ANNOUNCEMENTS_MAX;
use crate::peers::hub::blocks::NEAR_ABOVE;
use crate::peers::stub_chain::StubChain;
use crate::peers::{BlockFault, HashedTransaction, ImportResult, TransactionPack, TransactionVerdict};
use crate::requests::REQUEST_TIMEOUT_MAX;

struct Scene {
    hub: PeerHub,
    chain: Arc<StubChain>,
    now: Moment,
    genesis: B256,
    family: WireFamily,
}

fn header(number: u64, parent_hash: B256) -> Header {
    Header {
        number,
        parent_hash,
        difficulty: U256::from(100),
        transactions_root: primitives::EMPTY_ROOT,
        uncles_hash: primitives::EMPTY_UNCLES_HASH,
        ..Header::default()
    }
}

fn block(number: u64, parent_hash: B256) -> Block {
    Block {
        header: header(number, parent_hash),
        ..Block::default()
    }
}

fn whole(block: &Block, total_difficulty: u64) -> PeerMessage {
    PeerMessage::NewBlock(Arc::new(PackedBlock::pack(block)), U256::from(total_difficulty))
}

fn transaction(tx_nonce: u64, sharding_flag: u64) -> Transaction {
    let unsigned = UnsignedTransaction {
        tx_nonce,
        gas_price: U256::from(1),
        gas: 21_000,
        to: Some(Address::repeat_byte(7)),
        sharding_flag,
        ..UnsignedTransaction::default()
    };
    let key = SecretKey::from_bytes(&[9; 32]).expect("in range");
    unsigned.sign(&key, 100, TxForm::Native)
}

impl Scene {
    fn new(family: WireFamily) -> Self {
        let genesis = header(0, B256::ZERO).hash();
        let chain = StubChain::new(TransactionVerdict::Taken);
        let difficulty = U256::from(100);
        chain.blocks.lock().insert(genesis, difficulty);
        let head = ChainHead {
            number: 0,
            hash: genesis,
            total_difficulty: difficulty,
        };
        let settings = HubSettings {
            family,
            network_id: 99,
            genesis,
            forks: None,
            peers_max: 20,
            inbound_max: 12,
        };
        let hub = PeerHub::new(settings, chain.clone(), head, Entropy::from_seed([1; 32]));
        Self {
            hub,
            chain,
            now: Moment::default(),
            genesis,
            family,
        }
    }

    fn new_peer(&self, mark: u8, version: u64) -> NewPeer {
        NewPeer {
            has_snap: false,
            node: B512::repeat_byte(mark),
            address: IpAddr::from([198, 51, 100, mark]),
            protocol: self.family.protocol(version).expect("known"),
            is_inbound: true,
            is_exempt: false,
            is_preferred: false,
        }
    }

    fn status(&self, version: u64) -> PeerStatus {
        PeerStatus {
            version,
            network_id: 99,
            total_difficulty: U256::from(100),
            head: self.genesis,
            genesis: self.genesis,
            fork_id: None,
        }
    }

    fn join(&mut self, mark: u8, version: u64) -> PeerId {
        let new = self.new_peer(mark, version);
        let (peer, actions) = self.hub.admit(new, self.now).expect("a place");
        assert!(matches!(
            &actions[..],
            [PeerAction::Send {
                message: PeerMessage::Status(_),
                ..
            }]
        ));
        let status = PeerMessage::Status(self.status(version));
        let actions = self.receive(peer, status);
        assert!(matches!(&actions[0], PeerAction::News(PeerNews::Joined(facts)) if facts.peer == peer));
        peer
    }

    fn receive(&mut self, peer: PeerId, message: PeerMessage) -> Vec<PeerAction> {
        self.hub.received(peer, message, self.now)
    }

    fn admits(&mut self, peer: PeerId, message: &PeerMessage) -> Result<(), Vec<PeerAction>> {
        let version = if self.family == WireFamily::Mc { 63 } else { 66 };
        let (code, rlp) = message.encode(self.family.protocol(version).expect("known"));
        self.hub.admits(peer, code, rlp.len(), self.now)
    }

    /// As [`Self::receive`]. What is hashed without the hub is hashed at once.
    fn take(&mut self, peer: PeerId, message: PeerMessage) -> Vec<PeerAction> {
        let mut all = Vec::new();
        for action in self.receive(peer, message) {
            match action {
                PeerAction::Take { peer, pack } => {
                    let TransactionPack { transactions, asked } = pack;
                    let part = transactions.into_iter().map(HashedTransaction::from).collect();
                    let asked = asked.as_deref();
                    all.extend(self.hub.transactions_hashed(peer, part, asked, self.now));
                    all.extend(self.hub.pack_done(peer, asked, self.now));
                }
                PeerAction::Recognize { peer, message } => {
                    all.extend(self.hub.application_message_came(peer, message.key(), message));
                }
                other => all.push(other),
            }
        }
        all
    }

    fn store(&self, block: &Block, total_difficulty: u64) {
        let mut blocks = self.chain.blocks.lock();
        blocks.insert(block.hash(), U256::from(total_difficulty));
    }

    /// The check of a peer's block has found no fault.
    fn good(&mut self, from: PeerId, block: &Block) -> Vec<PeerAction> {
        let result = Ok(Box::new(block.clone()));
        self.hub.checked(from, &block.hash(), result, self.now)
    }

    /// The check of a peer's block has found a fault.
    fn refused(&mut self, from: PeerId, block: &Block, fault: BlockFault) -> Vec<PeerAction> {
        self.hub.checked(from, &block.hash(), Err(fault), self.now)
    }

    fn wait(&mut self, time: Duration) -> Vec<PeerAction> {
        self.now = self.now.after(time);
        self.hub.on_time(self.now)
    }
}

fn sent(actions: &[PeerAction]) -> Vec<(Vec<PeerId>, PeerMessage)> {
    let each = actions.iter().filter_map(|action| match action {
        PeerAction::Send { to, message } => Some((to.clone(), message.clone())),
        _ => None,
    });
    each.collect()
}

fn is_dropped(actions: &[PeerAction], dropped: PeerId) -> bool {
    let is_it =
        |action: &PeerAction| matches!(action, PeerAction::Disconnect { peer, .. } if *peer == dropped);
    actions.iter().any(is_it)
}

#[test]
fn a_wrong_status_is_remembered() {
    let mut scene = Scene::new(WireFamily::Mc);
    let new = scene.new_peer(1, 63);
    let (peer, _) = scene.hub.admit(new, scene.now).expect("a place");
    let status = PeerStatus {
        network_id: 98,
        ..scene.status(63)
    };
    let actions = scene.receive(peer, PeerMessage::Status(status));
    assert!(is_dropped(&actions, peer), "{actions:?}");
    assert_eq!(scene.hub.admit(new, scene.now), Err(RlpxDisconnect::TooManyPeers));
    scene.wait(OTHER_CHAIN_BAN);
    assert!(scene.hub.admit(new, scene.now).is_ok());
}

#[test]
fn a_status_that_does_not_come_ends_the_connection() {
    let mut scene = Scene::new(WireFamily::Mc);
    let new = scene.new_peer(1, 63);
    let (peer, _) = scene.hub.admit(new, scene.now).expect("a place");
    assert_eq!(scene.hub.deadline(), Some(STATUS_TIMEOUT));
    assert!(is_dropped(&scene.wait(STATUS_TIMEOUT), peer));
    assert_eq!(scene.hub.deadline(), None);
}

#[test]
fn places_are_bounded() {
    let mut scene = Scene::new(WireFamily::Mc);
    for mark in 1..=12 {
        scene.join(mark, 63);
    }
    let thirteenth = scene.new_peer(13, 63);
    assert_eq!(
        scene.hub.check_place(&thirteenth, scene.now),
        Err(RlpxDisconnect::TooManyPeers)
    );
    let dialled = NewPeer {
        is_inbound: false,
        ..thirteenth
    };
    assert_eq!(scene.hub.check_place(&dialled, scene.now), Ok(()));
    let exempt = NewPeer {
        is_exempt: true,
        ..thirteenth
    };
    assert_eq!(scene.hub.check_place(&exempt, scene.now), Ok(()));
    let twice = scene.new_peer(3, 63);
    assert_eq!(
        scene.hub.check_place(&twice, scene.now),
        Err(RlpxDisconnect::AlreadyConnected)
    );
}

#[test]
fn a_block_goes_whole_to_some_and_its_hash_to_the_rest() {
    let mut scene = Scene::new(WireFamily::Mc);
    let peers: Vec<_> = (1..=10).map(|mark| scene.join(mark, 63)).collect();
    let block = block(1, scene.genesis);
    let hash = block.hash();
    let message = whole(&block, 200);
    let actions = scene.receive(peers[0], message.clone());
    assert!(matches!(&actions[..], [PeerAction::Check { .. }]), "{actions:?}");
    assert!(scene.receive(peers[1], message).is_empty(), "it is known");
    let checked = scene.good(peers[0], &block);
    let whole = sent(&checked);
    // Eight peers do not have it.
    assert!(
        matches!(&whole[..], [(to, PeerMessage::NewBlock(_, td))] if to.len() == 2 && *td == U256::from(200))
    );
    assert!(matches!(checked.last(), Some(PeerAction::Import { .. })));
    scene.store(&block, 200);
    let rest = sent(&scene.hub.imported(&hash, &ImportResult::Good, scene.now));
    assert!(
        matches!(&rest[..], [(to, PeerMessage::NewBlockHashes(_))] if to.len() == 6),
        "{rest:?}"
    );
    assert!(
        scene.hub.announce(&block, U256::from(200)).is_empty(),
        "each is told once"
    );
}

#[test]
fn a_block_waits_for_its_parent() {
    let mut scene = Scene::new(WireFamily::Mc);
    let peer = scene.join(1, 63);
    let parent = block(1, scene.genesis);
    let child = block(2, parent.hash());
    let send = |scene: &mut Scene, block: &Block, td| scene.receive(peer, whole(block, td));
    send(&mut scene, &parent, 200);
    let actions = send(&mut scene, &child, 300);
    assert_eq!(actions, []);
    scene.good(peer, &parent);
    scene.store(&parent, 200);
    let actions = scene.hub.imported(&parent.hash(), &ImportResult::Good, scene.now);
    assert!(
        matches!(&actions[..], [PeerAction::Check { hash, .. }] if *hash == child.hash()),
        "{actions:?}"
    );
    // A wrong seal costs the place of who sent the block.
    let invalid = BlockFault::Header("seal".to_owned());
    assert!(is_dropped(&scene.refused(peer, &child, invalid), peer));
}

#[test]
fn distant_blocks_are_for_the_synchronization() {
    let mut scene = Scene::new(WireFamily::Mc);
    let peer = scene.join(1, 63);
    let unknown = B256::repeat_byte(5);
    for number in [1, NEAR_ABOVE + 1] {
        let message = whole(&block(number, unknown), 9000 + number * 1000);
        let actions = scene.receive(peer, message);
        let is_distant =
            |action: &PeerAction| matches!(action, PeerAction::News(PeerNews::DistantBlock { .. }));
        assert!(actions.iter().any(is_distant), "{actions:?}");
    }
    let far = AnnouncedBlock {
        hash: unknown,
        number: 1000,
    };
    let actions = scene.receive(peer, PeerMessage::NewBlockHashes(vec![far]));
    assert!(matches!(
        &actions[..],
        [PeerAction::News(PeerNews::DistantAnnouncement { .. })]
    ));
}

#[test]
fn an_announced_block_is_fetched_once() {
    let mut scene = Scene::new(WireFamily::Mc);
    let peers = [scene.join(1, 63), scene.join(2, 63)];
    let block = block(1, scene.genesis);
    let announced = AnnouncedBlock {
        hash: block.hash(),
        number: 1,
    };
    for peer in peers {
        let actions = scene.receive(peer, PeerMessage::NewBlockHashes(vec![announced]));
        assert!(actions.is_empty(), "{actions:?}");
    }
    let asked = sent(&scene.wait(Duration::from_secs(1)));
    assert!(
        matches!(&asked[..], [(to, PeerMessage::GetBlockHeaders(..))] if *to == [peers[0]]),
        "{asked:?}"
    );
    // The first one has nothing, so the second one is asked.
    let asked = sent(&scene.receive(peers[0], PeerMessage::BlockHeaders(0, Vec::new())));
    assert!(
        matches!(&asked[..], [(to, PeerMessage::GetBlockHeaders(..))] if *to == [peers[1]]),
        "{asked:?}"
    );
    let header = block.header.clone();
    let actions = scene.receive(peers[1], PeerMessage::BlockHeaders(0, vec![header]));
    assert!(matches!(&actions[..], [PeerAction::Check { hash, .. }] if *hash == block.hash()));
    assert_eq!(scene.hub.counters().blocks_fetched, 1);
}

#[test]
fn announcements_are_bounded_and_must_deliver() {
    let mut scene = Scene::new(WireFamily::Mc);
    let peer = scene.join(1, 63);
    let hash = |mark: u64| B256::left_padding_from(&(mark + 1).to_be_bytes());
    for part in 0..3 {
        let blocks = (part * 500..part * 500 + 500).map(|mark| AnnouncedBlock {
            hash: hash(mark),
            number: 1,
        });
        scene.receive(peer, PeerMessage::NewBlockHashes(blocks.collect()));
    }
    assert_eq!(scene.hub.announced.len(), ANNOUNCEMENTS_MAX);
    scene.wait(Duration::from_secs(1));
    let mut answers = 0;
    while !is_dropped(
        &scene.receive(peer, PeerMessage::BlockHeaders(0, Vec::new())),
        peer,
    ) {
        answers += 1;
        assert!(answers < 100);
    }
    assert!(scene.hub.announced.is_empty(), "nobody else has them");
}

#[test]
fn a_late_answer_without_ids_ends_the_connection() {
    let order = |peer| PeerOrder::Ask {
        peer,
        ticket: RequestTicket(5),
        request: PeerRequest::Bodies(vec![B256::repeat_byte(1)]),
    };
    for (family, version, ends) in [(WireFamily::Mc, 63, true), (WireFamily::Eth, 66, false)] {
        let mut scene = Scene::new(family);
        let peer = scene.join(1, version);
        let asked = sent(&scene.hub.carry_out(order(peer), scene.now));
        assert!(matches!(&asked[..], [(_, PeerMessage::GetBlockBodies(..))]));
        let actions = scene.wait(REQUEST_TIMEOUT_MAX);
        let late = PeerNews::Late {
            peer,
            ticket: RequestTicket(5),
        };
        assert_eq!(actions[0], PeerAction::News(late));
        assert_eq!(is_dropped(&actions, peer), ends, "{actions:?}");
        if ends {
            let actions = scene.hub.carry_out(order(peer), scene.now);
            assert!(matches!(
                &actions[..],
                [PeerAction::News(PeerNews::NotAsked { .. })]
            ));
        }
    }
}

#[test]
fn transactions_go_whole_or_as_hashes() {
    let mut scene = Scene::new(WireFamily::Eth);
    let old = scene.join(1, 64);
    let new: Vec<_> = (2..=9).map(|mark| scene.join(mark, 66)).collect();
    let pooled = transaction(1, 0);
    let actions = scene.take(new[0], PeerMessage::Transactions(vec![pooled.clone()]));
    assert!(matches!(&actions[..], [PeerAction::Submit { .. }]));
    let pooled = [HashedTransaction::from(pooled)];
    let told = sent(&scene.hub.pool_has(&pooled));
    let (mut whole, mut hashes) = (Vec::new(), Vec::new());
    for (to, message) in told {
        match message {
            PeerMessage::Transactions(_) => whole.extend(to),
            PeerMessage::NewPooledTransactionHashes(_) => hashes.extend(to),
            other => panic!("{other:?}"),
        }
    }
    // The sender knows it. Of eight others two get it whole, and so does the old version.
    assert!(whole.contains(&old) && !whole.contains(&new[0]) && !hashes.contains(&new[0]));
    assert_eq!(whole.len() + hashes.len(), 8);
    assert!((2..=3).contains(&whole.len()), "{whole:?}");
    assert!(scene.hub.pool_has(&pooled).is_empty(), "each is told once");
}

#[test]
fn announced_transactions_are_asked_of_one_peer_at_a_time() {
    let mut scene = Scene::new(WireFamily::Eth);
    let peers = [scene.join(1, 66), scene.join(2, 66)];
    let wanted = transaction(1, 0);
    let announced = vec![AnnouncedTransaction {
        hash: wanted.hash(),
        kind_and_size: None,
    }];
    let announce = PeerMessage::NewPooledTransactionHashes(announced);
    let asked = sent(&scene.receive(peers[0], announce.clone()));
    assert!(matches!(&asked[..], [(_, PeerMessage::GetPooledTransactions(1, hashes))] if hashes.len() == 1));
    assert!(
        scene.receive(peers[1], announce).is_empty(),
        "it is asked for already"
    );
    // The first one does not have it any more.
    let asked = sent(&scene.receive(peers[0], PeerMessage::PooledTransactions(1, Vec::new())));
    assert!(
        matches!(&asked[..], [(to, PeerMessage::GetPooledTransactions(..))] if *to == [peers[1]]),
        "{asked:?}"
    );
    let other = transaction(2, 0);
    let actions = scene.take(peers[1], PeerMessage::PooledTransactions(1, vec![other]));
    assert!(is_dropped(&actions, peers[1]), "nobody has asked for that one");
    assert!(scene.hub.wanted.is_empty());
}

#[test]
fn a_new_peer_is_told_of_the_pool() {
    let mut scene = Scene::new(WireFamily::Mc);
    scene.chain.pool.lock().push(transaction(1, 0));
    let new = scene.new_peer(1, 63);
    let (peer, _) = scene.hub.admit(new, scene.now).expect("a place");
    let status = PeerMessage::Status(scene.status(63));
    let told = sent(&scene.receive(peer, status));
    assert!(
        matches!(&told[..], [(_, PeerMessage::Transactions(pack))] if pack.len() == 1),
        "{told:?}"
    );
}

#[test]
fn of_two_connections_the_preferred_one_is_kept() {
    let mut scene = Scene::new(WireFamily::Mc);
    let dialled = NewPeer {
        is_inbound: false,
        ..scene.new_peer(1, 63)
    };
    let preferred = NewPeer {
        is_preferred: true,
        ..scene.new_peer(1, 63)
    };
    let (first, _) = scene.hub.admit(dialled, scene.now).expect("a place");
    let other = scene.hub.admit(scene.new_peer(1, 63), scene.now);
    assert_eq!(other.err(), Some(RlpxDisconnect::AlreadyConnected));
    let (second, actions) = scene.hub.admit(preferred, scene.now).expect("a place");
    assert!(is_dropped(&actions, first), "{actions:?}");
    let status = PeerMessage::Status(scene.status(63));
    scene.receive(second, status);
    assert_eq!(scene.hub.peers().count(), 1);
    assert!(scene.hub.admit(dialled, scene.now).is_err());
    // The other node may not have seen the Status that has come here.
    let crossed = NewPeer {
        is_inbound: false,
        ..preferred
    };
    let (third, actions) = scene.hub.admit(crossed, scene.now).expect("a place");
    assert!(is_dropped(&actions, second), "{actions:?}");
    scene.receive(third, PeerMessage::Status(scene.status(63)));
    // A connection of some seconds stays.
    scene.now.elapsed += STATUS_TIMEOUT;
    assert!(scene.hub.admit(preferred, scene.now).is_err());
}
