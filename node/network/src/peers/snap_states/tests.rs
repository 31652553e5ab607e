//! A client asks a running node for the parts of its states over a connection, and checks every
//! answer with the verifier of proofs.

use std::collections::BTreeMap;
use std::sync::Arc;

use chain::ChainSpec;
use chain::spec::{ChainFamily, DifficultyRule, GenesisAccount, RuleTable};
use chain::trie::{account_value, hex_prefix, slot_value, verify_range};
use primitives::{Address, B256, Bytes, SecretKey, U256, keccak256};
use store::{AccountRecord, Store};
use tokio::net::TcpStream;

use crate::entropy::Entropy;
use crate::messages::snap::{
    AccountRange, AccountRangeRequest, ByteCodesRequest, PathSet, SNAP_OFFER, SnapMessage, StorageRanges,
    StorageRangesRequest, TrieNodesRequest,
};
use crate::messages::{PeerMessage, WireFamily, WireProtocol, codes};
use crate::rlpx::{InboundMessage, PeerConnection, RlpxSettings};
use crate::sockets::dial;
use crate::testing::{LoopbackNode, chain_config, contact_of};

const ALL: B256 = B256::repeat_byte(0xff);
const CONTRACT: Address = Address::repeat_byte(0xc0);
const CODE: [u8; 3] = [0x60, 0x00, 0x00];
const SLOTS: u64 = 90;
const PLAIN_ACCOUNTS: u64 = 150;

fn spec() -> ChainSpec {
    let mut spec = ChainSpec {
        family: ChainFamily::Ethereum,
        rules: RuleTable::up_to("Istanbul").expect("a fork"),
        difficulty: DifficultyRule::Ethereum,
        failed_calls_refund_gas: false,
        system_contract: false,
        notify_scs_always_exists: false,
        genesis_hash: None,
        ..ChainSpec::dev()
    };
    for number in 0..PLAIN_ACCOUNTS {
        let account = GenesisAccount {
            balance: U256::from(number + 1),
            ..GenesisAccount::default()
        };
        let address = Address::from_word(keccak256(number.to_be_bytes()));
        spec.genesis.alloc.insert(address, account);
    }
    let slots = (0..SLOTS).map(|slot| (U256::from(slot), U256::from(slot + 1)));
    let contract = GenesisAccount {
        code: CODE.to_vec().into(),
        storage: slots.collect(),
        ..GenesisAccount::default()
    };
    spec.genesis.alloc.insert(CONTRACT, contract);
    spec
}

/// A peer that asks.
struct Asker {
    connection: PeerConnection<TcpStream>,
    protocol: WireProtocol,
    snap: usize,
}

impl Asker {
    async fn join(node: &LoopbackNode) -> Self {
        let mut capabilities = WireFamily::Eth.offers();
        capabilities.push(SNAP_OFFER);
        let settings = RlpxSettings {
            version: 5,
            client: "asker/1".to_owned(),
            capabilities,
            port: 0,
            message_bytes_max: WireFamily::Eth.message_bytes_max(),
        };
        let key = SecretKey::from_bytes(&[9; 32]).expect("in range");
        let contact = contact_of(node.network());
        let dialled = dial(&contact, key, settings, Entropy::from_seed([9; 32])).await;
        let mut connection = dialled.expect("a good handshake");
        let shared = connection.peer().shared.clone();
        assert_eq!((shared[0].offered.name, shared[1].offered.name), ("eth", "snap"));
        let protocol = WireFamily::Eth.protocol(shared[0].offered.version);
        let status = connection.next().await.expect("the Status");
        assert_eq!((status.capability, status.code), (0, codes::STATUS));
        // The node's own Status fits.
        connection.send(0, codes::STATUS, &status.payload).expect("room");
        Self {
            connection,
            protocol: protocol.expect("known"),
            snap: 1,
        }
    }

    async fn ask(&mut self, request: SnapMessage) -> SnapMessage {
        let id = request.request_id();
        let (code, payload) = PeerMessage::Snap(request).encode(self.protocol);
        let own = codes::of_snap(code).expect("a message of snap");
        self.connection.send(self.snap, own, &payload).expect("room");
        loop {
            let InboundMessage {
                capability,
                code,
                payload,
            } = self.connection.next().await.expect("an answer");
            if capability == self.snap {
                let message = PeerMessage::decode(self.protocol, codes::SNAP + code, &payload);
                let PeerMessage::Snap(answer) = message.expect("a good message") else {
                    panic!("no message of snap")
                };
                assert_eq!(answer.request_id(), id);
                return answer;
            }
        }
    }

    async fn account_range(&mut self, root: B256, origin: B256, bytes: u64) -> AccountRange {
        let request = AccountRangeRequest {
            root,
            origin,
            limit: ALL,
            bytes,
        };
        match self.ask(SnapMessage::GetAccountRange(1, request)).await {
            SnapMessage::AccountRange(_, range) => range,
            other => panic!("{other:?}"),
        }
    }

    /// All accounts of a state, by ranges that prove themselves.
    async fn accounts(&mut self, root: B256) -> BTreeMap<B256, AccountRecord> {
        let (mut all, mut origin, mut ranges) = (BTreeMap::new(), B256::ZERO, 0);
        loop {
            let range = self.account_range(root, origin, 3000).await;
            let (keys, values): (Vec<_>, Vec<_>) = range
                .accounts
                .iter()
                .map(|(hash, account)| (*hash, account_value(account)))
                .unzip();
            assert!(!range.proof.is_empty(), "always");
            let has_more = verify_range(root, origin, &keys, &values, &range.proof).expect("proven");
            all.extend(range.accounts);
            ranges += 1;
            if !has_more {
                assert!(ranges > 2, "{ranges} ranges");
                return all;
            }
            origin = next(*keys.last().expect("there is more"));
        }
    }

    /// All slots of an account, by ranges that prove themselves.
    async fn slots(&mut self, root: B256, account: B256, storage_root: B256) -> BTreeMap<B256, U256> {
        let (mut all, mut origin) = (BTreeMap::new(), B256::ZERO);
        loop {
            let request = StorageRangesRequest {
                root,
                accounts: vec![account],
                origin,
                limit: ALL,
                bytes: 1000,
            };
            let answer = self.ask(SnapMessage::GetStorageRanges(2, request)).await;
            let SnapMessage::StorageRanges(_, StorageRanges { slots, proof }) = answer else {
                panic!("{answer:?}")
            };
            let slots = slots.into_iter().next().unwrap_or_default();
            let (keys, values): (Vec<_>, Vec<_>) = slots
                .iter()
                .map(|(hash, value)| (*hash, slot_value(value)))
                .unzip();
            let has_more = verify_range(storage_root, origin, &keys, &values, &proof).expect("proven");
            all.extend(slots);
            if !has_more {
                return all;
            }
            origin = next(*keys.last().expect("there is more"));
        }
    }

    async fn nodes(&mut self, root: B256, paths: Vec<PathSet>) -> Vec<Bytes> {
        let request = TrieNodesRequest {
            root,
            paths,
            bytes: 100_000,
        };
        match self.ask(SnapMessage::GetTrieNodes(3, request)).await {
            SnapMessage::TrieNodes(_, nodes) => nodes,
            other => panic!("{other:?}"),
        }
    }
}

fn next(hash: B256) -> B256 {
    B256::from(U256::from_be_bytes(hash.0) + U256::from(1))
}

/// The paths of all lengths to a key.
fn prefixes(key: &B256) -> Vec<Bytes> {
    let nibbles: Vec<u8> = key.iter().flat_map(|byte| [byte >> 4, byte & 0xf]).collect();
    (0..=64)
        .map(|length| Bytes::from(hex_prefix(&nibbles[..length])))
        .collect()
}

/// Checks that the nodes on the way to a key hang together: each but the root is named by the one
/// before.
fn check_way(root: B256, nodes: &[Bytes]) {
    let found: Vec<&Bytes> = nodes.iter().filter(|node| !node.is_empty()).collect();
    assert!(found.len() >= 2, "{} nodes", found.len());
    assert_eq!(keccak256(found[0]), root);
    for pair in found.windows(2) {
        let hash = keccak256(pair[1]);
        assert!(pair[0].windows(32).any(|part| part == hash.as_slice()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_128_states_are_given_with_proofs() {
    let store = Store::in_memory().expect("a store in memory");
    let key = SecretKey::from_bytes(&[8; 32]).expect("in range");
    let node = LoopbackNode::start(key, store, chain_config(Arc::new(spec())), |_| {}).await;
    let genesis = node.chain.view().expect("a view").head().header.state_root;
    // The miner's reward changes each state.
    let roots: Vec<B256> = (0..130).map(|_| node.mine().header.state_root).collect();
    let mut asker = Asker::join(&node).await;
    assert!(node.network().record().claims().has_snap);

    let (oldest, head) = (roots[130 - 128], roots[129]);
    for root in [oldest, head] {
        let accounts = asker.accounts(root).await;
        assert!(accounts.len() as u64 > PLAIN_ACCOUNTS, "{}", accounts.len());
        let contract = keccak256(CONTRACT);
        let record = accounts[&contract];
        assert_eq!(record.code_hash, keccak256(CODE));
        let slots = asker.slots(root, contract, record.storage_root).await;
        assert_eq!(slots.len() as u64, SLOTS);
        assert_eq!(slots[&keccak256(B256::ZERO)], U256::from(1));
        // The miner's account, which all blocks change.
        let miner = keccak256(Address::ZERO);
        assert!(accounts.contains_key(&miner));
        let paths = prefixes(&miner).into_iter().map(|path| vec![path]).collect();
        let nodes = asker.nodes(root, paths).await;
        assert_eq!(nodes.len(), 65);
        check_way(root, &nodes);
        let mut storage = vec![Bytes::copy_from_slice(contract.as_slice())];
        storage.extend(prefixes(&keccak256(B256::ZERO)));
        let nodes = asker.nodes(root, vec![storage]).await;
        assert_eq!(nodes.len(), 65);
        check_way(record.storage_root, &nodes);
    }
    assert_ne!(
        asker.accounts(oldest).await[&keccak256(Address::ZERO)],
        asker.accounts(head).await[&keccak256(Address::ZERO)]
    );
    // Older states, that of block 0, a storage's root and unknown ones get no entries and no proof.
    let storage_root = asker.accounts(head).await[&keccak256(CONTRACT)].storage_root;
    for root in [roots[1], genesis, storage_root, B256::repeat_byte(7)] {
        let range = asker.account_range(root, B256::ZERO, 4000).await;
        assert_eq!(range, AccountRange::default());
        let nodes = asker.nodes(root, vec![vec![Bytes::from_static(&[0])]]).await;
        assert_eq!(nodes, Vec::<Bytes>::new());
    }
    // The window moves with the head.
    node.mine();
    assert_eq!(
        asker.account_range(oldest, B256::ZERO, 4000).await,
        AccountRange::default()
    );
    assert_eq!(
        asker.account_range(roots[3], B256::ZERO, 0).await.accounts.len(),
        1
    );
    let request = ByteCodesRequest {
        hashes: vec![keccak256(CODE), B256::repeat_byte(1)],
        bytes: 1000,
    };
    let codes = asker.ask(SnapMessage::GetByteCodes(4, request)).await;
    assert_eq!(codes, SnapMessage::ByteCodes(4, vec![CODE.to_vec().into()]));
    node.stop().await;
}
