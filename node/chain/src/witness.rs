//! The proof of values and of calls for those who have only the header.
//!
//! A [`Witness`] has the nodes of the tries on the paths of all accounts and slots that a call has
//! read. Its reader checks them against a state root ([`Witness::verify`]) and runs the call again
//! on what is proven ([`Replayer`]). If the call then reads anything else, nothing is believed.
//! Whether the header belongs to the chain is not decided here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use alloy_rlp::BufMut;
use primitives::rlp::{RlpReader, encode_fields, encode_fields_to_vec, fields_length};
use primitives::{Address, B256, Bytes, DecodeError, EMPTY_CODE_HASH, Encodable, Header, U256, keccak256};
use store::{AccountKey, AccountRecord, Store, slot_hash};

use crate::call::{BlockOverride, CallOutcome, CallOverrides, CallReads, CallRequest, EvmCallError, StateAt};
use crate::genesis::{GenesisError, ensure_genesis};
use crate::query_limit::QueryLimit;
use crate::spec::{ChainSpec, GenesisAccounts};
use crate::state::{AccountOverride, StorageOverride};
use crate::trie::{KeyProofError, ProofNodes, read_account_value, read_slot_value};
use crate::view::View;

/// Gas of a call of an SCS: much more than any call needs, yet it bounds the memory of the call.
const CALL_GAS: u64 = 500_000_000;

/// The call of a contract in its own name, as an SCS has it. Both sides run the same one, because
/// a contract can see its gas. Without a contract the input is run as the code that creates one.
pub fn contract_call(contract: Option<&Address>, input: Bytes) -> CallRequest {
    CallRequest {
        from: contract.copied(),
        to: contract.copied(),
        gas: Some(CALL_GAS),
        input,
        ..CallRequest::default()
    }
}

/// The nodes that prove a part of the state after a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The nodes of the state trie and of storage tries, each once, in no order.
    pub nodes: Vec<Bytes>,
    /// The accounts that they prove.
    pub accounts: Vec<ProvenReads>,
}

/// An account of a witness, with the slots that the witness proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenReads {
    /// The account.
    pub address: Address,
    /// The slots.
    pub slots: Vec<U256>,
}

impl Encodable for ProvenReads {
    fn encode(&self, out: &mut dyn BufMut) {
        encode_fields(&[&self.address, &self.slots], out);
    }

    fn length(&self) -> usize {
        fields_length(&[&self.address, &self.slots])
    }
}

/// The part of a state that a witness has proven, by account.
#[derive(Clone, Debug, Default)]
pub struct ProvenState(BTreeMap<Address, ProvenAccount>);

/// An account that a witness has proven.
#[derive(Clone, Debug, Default)]
pub struct ProvenAccount {
    /// The account; `None` if it does not exist.
    pub record: Option<AccountRecord>,
    /// The proven slots.
    pub storage: BTreeMap<U256, U256>,
}

/// The reason why a witness does not prove what it should.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// The nodes do not lead to a value.
    #[error("{what} of {address}: {error}")]
    Nodes {
        /// The value.
        what: String,
        /// The account.
        address: Address,
        /// The fault.
        error: Box<KeyProofError>,
    },
    /// A value of a trie is none of an account or a slot.
    #[error("{what} of {address}: {error}")]
    Value {
        /// The value.
        what: String,
        /// The account.
        address: Address,
        /// The fault.
        error: DecodeError,
    },
    /// The code of an account is not the one that its hash names.
    #[error("code of {address}: got none with the hash {expected}")]
    Code {
        /// The account.
        address: Address,
        /// The proven hash.
        expected: B256,
    },
    /// The call reads something that the witness does not prove.
    #[error("the call reads {what} of {address}, which is not proven")]
    Unproven {
        /// The value.
        what: String,
        /// The account.
        address: Address,
    },
    /// The call wants the hash of a block that is not known here.
    #[error("the call reads the hash of block {number}, which is not known here")]
    Ancestor {
        /// The number of the block.
        number: u64,
    },
    /// The call cannot be run again.
    #[error(transparent)]
    Call(#[from] EvmCallError),
}

impl View {
    /// The proof of `slots` of `account` after block `number`, and of what `request` returns there.
    /// `None` if the tries of that state are not kept.
    ///
    /// # Errors
    /// [`EvmCallError`] if the store fails, or the call cannot be run within `limit`.
    pub fn witness(
        &self,
        number: u64,
        account: Address,
        slots: &[U256],
        request: Option<&CallRequest>,
        limit: impl Into<QueryLimit>,
    ) -> Result<Option<Witness>, EvmCallError> {
        let CallReads {
            accounts: mut reads, ..
        } = match request {
            Some(request) => {
                self.call_with_reads(StateAt::Block(number), request, None, limit)?
                    .1
            }
            None => CallReads::default(),
        };
        reads.entry(account).or_default().extend(slots);
        let mut nodes = BTreeSet::new();
        let mut accounts = Vec::with_capacity(reads.len());
        for (address, slots) in reads {
            let slots: Vec<U256> = slots.into_iter().collect();
            let Some(proof) = self.proof(number, &address, &slots)? else {
                return Ok(None);
            };
            nodes.extend(proof.nodes);
            nodes.extend(proof.slots.into_iter().flat_map(|slot| slot.nodes));
            accounts.push(ProvenReads { address, slots });
        }
        Ok(Some(Witness {
            nodes: nodes.into_iter().map(Bytes::from).collect(),
            accounts,
        }))
    }
}

impl Witness {
    /// The RLP: nodes, accounts with their slots.
    pub fn encode(&self) -> Vec<u8> {
        encode_fields_to_vec(&[&self.nodes, &self.accounts])
    }

    /// Reads what [`Self::encode`] has written.
    ///
    /// # Errors
    /// [`DecodeError`] if it is something else.
    pub fn decode(rlp: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = RlpReader::open(rlp, "witness")?;
        let (mut nodes, mut accounts) = (Vec::new(), Vec::new());
        let mut list = fields.list("witness.nodes")?;
        while !list.is_empty() {
            nodes.push(list.bytes("witness.node")?);
        }
        let mut list = fields.list("witness.accounts")?;
        while !list.is_empty() {
            let mut entry = list.list("witness.account")?;
            let address = entry.address("account.address")?;
            let mut numbers = entry.list("account.slots")?;
            let mut slots = Vec::new();
            while !numbers.is_empty() {
                slots.push(numbers.u256("account.slot")?);
            }
            accounts.push(ProvenReads { address, slots });
        }
        Ok(Self { nodes, accounts })
    }

    /// Checks each value against the state root of a header.
    ///
    /// # Errors
    /// [`WitnessError`] if a value is not proven.
    pub fn verify(&self, root: B256) -> Result<ProvenState, WitnessError> {
        let nodes = ProofNodes::new(self.nodes.iter().map(|node| &node[..]));
        let mut accounts = BTreeMap::new();
        for ProvenReads { address, slots } in &self.accounts {
            accounts.insert(*address, verify_account(&nodes, root, *address, slots)?);
        }
        Ok(ProvenState(accounts))
    }
}

fn verify_account(
    nodes: &ProofNodes<'_>,
    root: B256,
    address: Address,
    slots: &[U256],
) -> Result<ProvenAccount, WitnessError> {
    let find = |trie, key: &B256, what: String| {
        nodes.value(trie, key).map_err(|error| WitnessError::Nodes {
            what,
            address,
            error: Box::new(error),
        })
    };
    let value_error = |what| move |error| WitnessError::Value { what, address, error };
    let leaf = find(root, &AccountKey::of(&address).0, "account".to_owned())?;
    let record = leaf.map(|leaf| read_account_value(&leaf)).transpose();
    let record = record.map_err(value_error("account".to_owned()))?;
    let mut storage = BTreeMap::new();
    for slot in slots {
        let what = format!("slot {slot:#x}");
        let leaf = match &record {
            Some(record) => find(record.storage_root, &slot_hash(slot), what.clone())?,
            None => None,
        };
        let value = leaf.map_or(Ok(U256::ZERO), |leaf| read_slot_value(&leaf));
        storage.insert(*slot, value.map_err(value_error(what))?);
    }
    Ok(ProvenAccount { record, storage })
}

impl ProvenState {
    /// An account, if the witness has proven it.
    pub fn account(&self, address: &Address) -> Option<&ProvenAccount> {
        self.0.get(address)
    }

    /// The accounts with code, and the hashes of their code.
    pub fn codes(&self) -> impl Iterator<Item = (Address, B256)> {
        let codes = self
            .0
            .iter()
            .filter_map(|(address, one)| Some((*address, one.record?.code_hash)));
        codes.filter(|(_, hash)| *hash != EMPTY_CODE_HASH)
    }
}

/// A chain without accounts, on which calls run again with what is proven.
#[derive(Debug)]
pub struct Replayer(View);

impl Replayer {
    /// Makes a chain with the rules of `spec` in memory.
    ///
    /// # Errors
    /// [`GenesisError`] if it cannot be made.
    pub fn new(mut spec: ChainSpec) -> Result<Self, GenesisError> {
        spec.genesis_hash = None;
        spec.genesis.alloc = GenesisAccounts::default();
        let store = Store::in_memory()?;
        ensure_genesis(&store, &spec)?;
        Ok(Self(View::new(&store, Arc::new(spec))?))
    }

    /// Runs a call as in the block with `header`, whose state root has proven `state`. `codes` has
    /// the code for each hash of [`ProvenState::codes`], `ancestors` the hashes of the blocks that
    /// are known below the header, for the opcode BLOCKHASH.
    ///
    /// # Errors
    /// [`WitnessError`] if the call needs what is not proven.
    pub fn call(
        &self,
        header: &Header,
        ancestors: BTreeMap<u64, B256>,
        state: &ProvenState,
        codes: &BTreeMap<B256, Bytes>,
        request: &CallRequest,
        timeout: Duration,
    ) -> Result<CallOutcome, WitnessError> {
        let mut accounts = Vec::with_capacity(state.0.len());
        for (address, proven) in &state.0 {
            let Some(record) = &proven.record else {
                continue;
            };
            let code = match record.code_hash {
                EMPTY_CODE_HASH => Bytes::new(),
                expected => codes
                    .get(&expected)
                    .filter(|code| keccak256(code) == expected)
                    .cloned()
                    .ok_or(WitnessError::Code {
                        address: *address,
                        expected,
                    })?,
            };
            let slots = proven.storage.iter().map(|(slot, value)| (*slot, *value));
            let change = AccountOverride {
                tx_nonce: Some(record.tx_nonce),
                balance: Some(record.balance),
                code: Some(code),
                storage: StorageOverride::Replace(slots.collect()),
            };
            accounts.push((*address, change));
        }
        let block = BlockOverride {
            number: Some(header.number),
            timestamp: Some(header.timestamp),
            gas_limit: Some(header.gas_limit),
            beneficiary: Some(header.beneficiary),
            difficulty: Some(header.difficulty),
            random: None,
        };
        let request = CallRequest {
            overrides: CallOverrides { accounts, block },
            ..request.clone()
        };
        let at = StateAt::Block(self.0.head_number());
        let (outcome, reads) = self.0.call_with_reads(at, &request, Some(ancestors), timeout)?;
        if let Some(number) = reads.missing_ancestor {
            return Err(WitnessError::Ancestor { number });
        }
        for (address, slots) in reads.accounts {
            let unproven = |what| WitnessError::Unproven { what, address };
            let proven = state.account(&address);
            let proven = proven.ok_or_else(|| unproven("the account".to_owned()))?;
            if let Some(slot) = slots.iter().find(|slot| !proven.storage.contains_key(slot)) {
                return Err(unproven(format!("slot {slot:#x}")));
            }
        }
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use primitives::hex;
    use proptest::prelude::*;

    use super::*;
    use crate::call::TIMEOUT_DEFAULT;
    use crate::spec::GenesisAccount;

    const CONTRACT: Address = Address::repeat_byte(0xcc);
    const OTHER: Address = Address::repeat_byte(0xdd);
    /// Answers with the value of the slot that the input names, plus the balance of `OTHER`.
    const GETTER: &str = "6000355473dddddddddddddddddddddddddddddddddddddddd310160005260206000f3";
    const BALANCE: u64 = 1000;

    fn view() -> View {
        let mut spec = ChainSpec::dev();
        let storage = (0..50).map(|slot| (U256::from(slot), U256::from(slot * 7 + 1)));
        let contract = GenesisAccount {
            code: hex::decode(GETTER).unwrap().into(),
            storage: storage.collect(),
            ..Default::default()
        };
        let other = GenesisAccount {
            balance: U256::from(BALANCE),
            ..Default::default()
        };
        spec.genesis.alloc.extend([(CONTRACT, contract), (OTHER, other)]);
        let store = Store::in_memory().unwrap();
        ensure_genesis(&store, &spec).unwrap();
        View::new(&store, Arc::new(spec)).unwrap()
    }

    fn request(slot: u64) -> CallRequest {
        CallRequest {
            from: Some(CONTRACT),
            to: Some(CONTRACT),
            input: B256::from(U256::from(slot)).to_vec().into(),
            ..CallRequest::default()
        }
    }

    fn codes() -> BTreeMap<B256, Bytes> {
        let code = Bytes::from(hex::decode(GETTER).unwrap());
        [(keccak256(&code), code)].into()
    }

    fn header(view: &View) -> Header {
        view.header(0).unwrap().unwrap().1.header
    }

    fn witness(view: &View, slots: &[U256], request: Option<&CallRequest>) -> Witness {
        let witness = view.witness(0, CONTRACT, slots, request, TIMEOUT_DEFAULT);
        witness.unwrap().expect("the tries of the head")
    }

    /// The answer of the contract for a slot by a witness.
    fn answer(header: &Header, witness: &Witness, slot: u64) -> Result<U256, WitnessError> {
        let state = witness.verify(header.state_root)?;
        let replayer = Replayer::new(ChainSpec::dev()).unwrap();
        let ancestors = BTreeMap::new();
        match replayer.call(
            header,
            ancestors,
            &state,
            &codes(),
            &request(slot),
            TIMEOUT_DEFAULT,
        )? {
            CallOutcome::Success { output, .. } => Ok(U256::from_be_slice(&output)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_call_gives_the_same_by_its_witness() {
        let view = view();
        for slot in [0, 3, 49, 50, 51] {
            let witness = witness(&view, &[], Some(&request(slot)));
            let witness = Witness::decode(&witness.encode()).unwrap();
            let expected = BALANCE + if slot < 50 { slot * 7 + 1 } else { 0 };
            assert_eq!(
                answer(&header(&view), &witness, slot).unwrap(),
                U256::from(expected)
            );
        }
    }

    #[test]
    fn slots_are_proven_without_a_call() {
        let (view, slots) = (view(), [2, 60].map(U256::from));
        let state = witness(&view, &slots, None).verify(header(&view).state_root);
        let state = state.unwrap();
        let account = state.account(&CONTRACT).unwrap();
        assert_eq!(account.storage[&slots[0]], U256::from(15));
        assert_eq!(account.storage[&slots[1]], U256::ZERO);
        let hash = *codes().keys().next().unwrap();
        assert_eq!(state.codes().collect::<Vec<_>>(), [(CONTRACT, hash)]);
    }

    #[test]
    fn what_the_call_reads_beyond_is_not_believed() {
        let view = view();
        let (header, of_three) = (header(&view), witness(&view, &[], Some(&request(3))));
        let error = answer(&header, &of_three, 4).unwrap_err().to_string();
        assert!(
            error.contains("slot 0x4") && error.ends_with("not proven"),
            "{error}"
        );
        let error = answer(&header, &witness(&view, &[], None), 3).unwrap_err();
        assert!(matches!(error, WitnessError::Unproven { .. }), "{error}");
        let (state, none) = (of_three.verify(header.state_root).unwrap(), BTreeMap::new());
        let replayer = Replayer::new(ChainSpec::dev()).unwrap();
        let error = replayer.call(
            &header,
            BTreeMap::new(),
            &state,
            &none,
            &request(3),
            TIMEOUT_DEFAULT,
        );
        assert!(matches!(error, Err(WitnessError::Code { .. })), "{error:?}");
    }

    #[test]
    fn the_hash_of_a_block_is_one_of_the_known_ancestors() {
        // Answers with the hash of the block that the input names.
        let code = Bytes::from(hex::decode("6000354060005260206000f3").unwrap());
        let mut spec = ChainSpec::dev();
        let contract = GenesisAccount {
            code: code.clone(),
            ..Default::default()
        };
        spec.genesis.alloc.insert(CONTRACT, contract);
        let store = Store::in_memory().unwrap();
        ensure_genesis(&store, &spec).unwrap();
        let view = View::new(&store, Arc::new(spec)).unwrap();
        let witness = witness(&view, &[], Some(&request(0)));
        let header = Header {
            number: 300,
            ..header(&view)
        };
        let state = witness.verify(header.state_root).unwrap();
        let codes = [(keccak256(&code), code)].into();
        let replayer = Replayer::new(ChainSpec::dev()).unwrap();
        let hash_of = |number: u64| {
            let ancestors = (100..300).map(|number| (number, B256::from(U256::from(number + 7))));
            let called = replayer.call(
                &header,
                ancestors.collect(),
                &state,
                &codes,
                &request(number),
                TIMEOUT_DEFAULT,
            );
            called.map(|outcome| U256::from_be_slice(&outcome.into_answer()))
        };
        for (number, expected) in [(299, 306), (100, 107), (300, 0), (301, 0), (43, 0)] {
            assert_eq!(hash_of(number).unwrap(), U256::from(expected), "{number}");
        }
        for number in [99, 44] {
            let error = hash_of(number).unwrap_err();
            assert!(matches!(error, WitnessError::Ancestor { number: got } if got == number));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// A changed witness proves the truth or nothing.
        #[test]
        fn a_changed_witness_proves_nothing_else(
            slot in 0_u64..60, kind in 0_u8..5, at in any::<prop::sample::Index>(), byte in any::<prop::sample::Index>(),
            bit in 0_u8..8,
        ) {
            let view = view();
            let mut header = header(&view);
            let mut changed = witness(&view, &[], Some(&request(slot)));
            let truth = answer(&header, &changed, slot).unwrap();
            let account = at.index(changed.accounts.len());
            match kind {
                0 => {
                    changed.nodes.remove(at.index(changed.nodes.len()));
                }
                1 => {
                    let node = at.index(changed.nodes.len());
                    let mut bytes = changed.nodes[node].to_vec();
                    let place = byte.index(bytes.len());
                    bytes[place] ^= 1 << bit;
                    changed.nodes[node] = bytes.into();
                }
                2 => {
                    changed.accounts.remove(account);
                }
                3 => changed.accounts[account].slots.clear(),
                _ => header.state_root.0[byte.index(32)] ^= 1 << bit,
            }
            if let Ok(answered) = answer(&header, &changed, slot) {
                prop_assert_eq!(answered, truth);
            }
        }

        #[test]
        fn any_bytes_are_a_witness_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(witness) = Witness::decode(&bytes) {
                let _ = witness.verify(B256::ZERO);
            }
        }
    }
}
