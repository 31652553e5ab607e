//! A member of a MicroChain that says what it likes. It joins with an account of its own, through
//! the service of a real VNODE, and is written from docs/microchain-design.md, 1 and 7.
//!
//! The member executes nothing: a block without transactions has the state of its parent.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chain::application::{BLOCK_GAS_LIMIT, BlockExtra};
use e2e::microchain::COIN;
use e2e::wait_for;
use microchain::BaseCall;
use microchain::abi::CallData;
use primitives::rlp::{RlpReader, encode_fields_to_vec};
use primitives::{
    Address, B256, Block, Bytes, EMPTY_ROOT, EMPTY_UNCLES_HASH, Header, SecretKey, TxForm, TxRules, U256,
    UnsignedTransaction, keccak256,
};
use scs_service::client::{ScsClient, ScsClientConfig, ScsEvent};
use scs_service::message::BroadcastStatus;
use scs_service::{MessageKind, ScsId, ScsMessage, WireAddress};
use sha2::{Digest, Sha256};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// The chain id of the development network.
const CHAIN_ID: u64 = 100;
/// The first bytes of the payload of a message between SCSs.
const MARK: &[u8] = b"mc1";
/// The status of a message with a block.
const BLOCK: i32 = 64;
/// The price of gas that a chain base takes, in sha.
const GAS_PRICE: u64 = 20_000_000_000;
/// The time in a slot from which the block of the slot before is there, in milliseconds.
const SLOT_BEGIN_MS: u64 = 150;
/// The time in a slot from which it is too late for a block, in milliseconds.
const SLOT_END_MS: u64 = 600;

/// The member. Slots have one second.
pub(crate) struct LyingMember {
    runtime: Runtime,
    key: SecretKey,
    client: ScsClient,
    heard: mpsc::Receiver<ScsEvent>,
    chain: Address,
    /// The best block that others have sent.
    head: Header,
    /// The members in force.
    members: Vec<Address>,
    /// The slot in which it has sent blocks last.
    last_slot: u64,
    sent: u64,
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("after 1970").as_millis() as u64
}

impl LyingMember {
    /// Connects to the service of a VNODE.
    pub(crate) fn connect(service: &str) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let key = SecretKey::from_bytes(&[0x77; 32]).expect("in range");
        let config = ScsClientConfig::new(service, ScsId(key.address()), CHAIN_ID);
        let (client, heard) = runtime.block_on(async { ScsClient::start(config) });
        wait_for("the handshake", || client.is_connected().then_some(()));
        Self {
            runtime,
            key,
            client,
            heard,
            chain: Address::ZERO,
            head: Header::default(),
            members: Vec::new(),
            last_slot: 0,
            sent: 0,
        }
    }

    /// The id as text, in lower case.
    pub(crate) fn id(&self) -> String {
        ScsId(self.key.address()).to_string()
    }

    /// Sends a call to the chain base.
    fn call_base(&self, data: Bytes, gas: u64) {
        let sent = self.runtime.block_on(async {
            let account = self.client.account_info(self.key.address()).await?;
            let unsigned = UnsignedTransaction {
                tx_nonce: account.tx_nonce,
                gas_price: U256::from(GAS_PRICE),
                gas,
                to: Some(self.chain),
                input: data,
                ..Default::default()
            };
            let signed = unsigned.sign(&self.key, CHAIN_ID, TxForm::Native);
            self.client.remote_call(signed.encode_raw().into()).await
        });
        sent.expect("the VNODE takes the transaction");
    }

    /// Registers as a member of this MicroChain, whose chain base locks a coin in `pool`.
    pub(crate) fn join(&mut self, chain: &str, pool: &str) {
        self.chain = chain.parse().expect("an address");
        let pool: Address = pool.parse().expect("an address");
        let id = self.key.address();
        let bond = U256::from(COIN).to_be_bytes::<32>();
        let content = [id.as_slice(), self.chain.as_slice(), &bond, pool.as_slice()].concat();
        let digest = Sha256::digest(content);
        let rsv = self.key.sign(&B256::from_slice(&digest)).to_rsv();
        let data = CallData::default()
            .address(Address::ZERO)
            .small(u64::from(rsv[64]))
            .word(B256::from_slice(&rsv[..32]))
            .word(B256::from_slice(&rsv[32..64]));
        let hash = keccak256("registerAsSCS(address,uint8,bytes32,bytes32)");
        self.call_base(data.after([hash[0], hash[1], hash[2], hash[3]]), 600_000);
    }

    /// Proposes a flush with rewards of its own, from this place of `members`.
    pub(crate) fn propose(&self, place: u64, members: usize, mark: u8) {
        let call = BaseCall::CreateProposal {
            place,
            last_approved: B256::ZERO,
            hash: B256::repeat_byte(mark),
            block: B256::ZERO,
            start: 1,
            end: 2,
            distribution: vec![U256::from(10u64).pow(U256::from(18)); members],
            bad_actors: Vec::new(),
            via: self.key.address(),
            redemptions: 0,
        };
        self.call_base(call.data(), 2_000_000);
    }

    /// Takes a message of the VNODE.
    fn hear(&mut self, event: ScsEvent) {
        let ScsEvent::Broadcast(message) = event else {
            return;
        };
        if message.kind != MessageKind::Broadcast(BroadcastStatus::new(BLOCK)) {
            return;
        }
        let mut fields = RlpReader::open(&message.payload, "message").expect("an honest message");
        assert_eq!(fields.slice("mark").expect("a mark"), MARK);
        let block = fields.raw("block").expect("a block");
        let header = Block::decode(block, TxRules::Moac)
            .expect("an honest block")
            .header;
        let extra = BlockExtra::decode(&header.extra_data).expect("honest extra data");
        if !extra.list.is_empty() {
            self.members = extra.list;
        }
        if header.number > self.head.number {
            self.head = header;
        }
    }

    /// Waits for a slot of this member after the last one. Returns the parent of its block.
    pub(crate) fn own_slot(&mut self) -> Header {
        let found = wait_for("a slot of the lying member", || {
            while let Ok(Some(event)) = self.runtime.block_on(async {
                let pause = Duration::from_millis(20);
                timeout(pause, self.heard.recv()).await
            }) {
                self.hear(event);
            }
            let (slot, into) = (now_ms() / 1000, now_ms() % 1000);
            let place = (slot as usize).checked_rem(self.members.len())?;
            let is_own = self.members[place] == self.key.address();
            let is_open = slot > self.last_slot && slot > self.head.timestamp;
            let is_time = (SLOT_BEGIN_MS..SLOT_END_MS).contains(&into);
            (is_own && is_open && is_time).then_some(slot)
        });
        self.last_slot = found;
        self.head.clone()
    }

    /// A valid block of the last own slot without transactions. Its base block is so much higher
    /// than the parent's. It is not signed.
    pub(crate) fn block(&self, parent: &Header, base_more: u64) -> Header {
        let before = BlockExtra::decode(&parent.extra_data).expect("honest extra data");
        let extra = BlockExtra {
            base: before.base + base_more,
            since: before.since,
            list: Vec::new(),
        };
        Header {
            parent_hash: parent.hash(),
            uncles_hash: EMPTY_UNCLES_HASH,
            beneficiary: self.key.address(),
            state_root: parent.state_root,
            transactions_root: EMPTY_ROOT,
            receipts_root: EMPTY_ROOT,
            difficulty: U256::from(1),
            number: parent.number + 1,
            gas_limit: BLOCK_GAS_LIMIT,
            timestamp: self.last_slot,
            extra_data: extra.encode(&[0; 65]),
            ..Default::default()
        }
    }

    /// Signs a block with the own key, or with another one.
    pub(crate) fn signed(&self, mut header: Header, other: Option<&SecretKey>) -> Header {
        let (unsigned, _) = BlockExtra::split(&header.extra_data).expect("made here");
        let unsigned = Bytes::copy_from_slice(unsigned);
        let without = Header {
            extra_data: unsigned.clone(),
            ..header.clone()
        };
        let text: &[u8] = b"\x19MicroChain block";
        let hash = keccak256(without.encode());
        let digest = keccak256([text, self.chain.as_slice(), hash.as_slice()].concat());
        let mut signature = other.unwrap_or(&self.key).sign(&digest).to_rsv();
        signature[64] -= 27;
        header.extra_data = [&unsigned[..], &signature].concat().into();
        header
    }

    /// Sends a block without transactions to all.
    pub(crate) fn send(&mut self, header: Header) {
        let id = ScsId(self.key.address());
        let block = Block {
            header,
            ..Default::default()
        };
        self.sent += 1;
        let message = ScsMessage {
            request_id: format!("{id}-{:016x}", self.sent).into(),
            timestamp: Some(now_ms() / 1000),
            is_request: true,
            kind: MessageKind::Broadcast(BroadcastStatus::new(BLOCK)),
            scs_id: id.to_wire(),
            chain: Some(WireAddress::rlp(self.chain)),
            sender: Some(WireAddress::raw(self.key.address())),
            receiver: None,
            payload: encode_fields_to_vec(&[&MARK, &block]).into(),
        };
        let sent = self.runtime.block_on(self.client.broadcast(&message));
        sent.expect("the VNODE takes the message");
    }
}
