//! Compares our executor with a node that is reached by JSON-RPC only.
//!
//! The node makes the blocks: programs are deployed and called by transactions that are sent to it.
//! Its blocks are read back and executed here, from block 0 on, because programs may read
//! anything. Gas, receipts, roots and the values of the changed state are compared. Reading blocks
//! is in `read`, executing and comparing them in `follow`.

mod follow;
mod read;

pub use follow::Follower;

use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use chain::ChainSpec;
use e2e::{Caller, RpcCallError};
use primitives::{Address, SecretKey, Transaction, TxForm, U256, UnsignedTransaction, hex};
use serde_json::{Value, json};

use crate::campaign::SeedRange;
use crate::case::{CaseAccount, CaseInput, CaseTransaction, SignatureKind};
use crate::error::DifferentialError;
use crate::generate::{self, AddressPool};
use crate::opcodes::op;
use crate::program::{Part, Program};
use crate::random::SeededRandom;
use crate::rules::ForkRules;

/// Pause between two questions for a receipt.
const PAUSE: Duration = Duration::from_millis(50);
/// The most gas of a call. Some calls must fit into a block.
const CALL_GAS_MAX: u64 = 1_000_000;
/// Calls of each seed.
const CALLS: u64 = 8;

/// The address, the rules and the keys of a node.
#[derive(Debug)]
pub struct NodeOptions {
    /// The URL: `http://host:port`.
    pub url: String,
    /// The module of its methods: `mc` or `eth`.
    pub module: String,
    /// The form of the transactions that are signed here.
    pub form: TxForm,
    /// The key of an account with a balance. Without it the node signs for its first account.
    pub key: Option<SecretKey>,
    /// The price of gas. Without it the node is asked for one.
    pub gas_price: Option<U256>,
    /// Our rules and block 0, which must be the node's.
    pub spec: ChainSpec,
    /// The features that programs may use.
    pub rules: &'static ForkRules,
    /// The longest time for a transaction to be mined.
    pub patience: Duration,
}

/// A node that is reached by JSON-RPC.
#[derive(Debug)]
pub struct NamedNode {
    caller: Caller,
    options: NodeOptions,
    sender: Address,
    gas_price: U256,
}

/// The figures of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeReport {
    /// Seeds.
    pub seeds: u64,
    /// Blocks of the node that were executed here.
    pub blocks: u64,
    /// Transactions in them.
    pub transactions: u64,
    /// Transactions that the node did not accept.
    pub not_accepted: u64,
    /// Values of the state that were compared one by one.
    pub values: u64,
}

/// Runs `seeds` on the node.
///
/// # Errors
/// The first difference, with the seed, the programs and how to repeat it; or why the node cannot
/// be used.
pub fn compare_with_node(seeds: SeedRange, options: NodeOptions) -> Result<NodeReport, DifferentialError> {
    let spec = options.spec.clone();
    let node = NamedNode::connect(options)?;
    let mut follower = Follower::new(spec)?;
    follower.check_block_0(&node)?;
    follower.follow(&node)?;
    let mut report = NodeReport::default();
    for seed in seeds.seeds() {
        let plan = node.plan(seed)?;
        let not_accepted = node.send(&plan)?;
        follower
            .follow(&node)
            .map_err(|difference| DifferentialError::OfSeed {
                error: Box::new(difference),
                repeat: format!(
                    "seed {seed}, from transaction nonce {} of {} on:\n{}Repeat it on a new chain: \
                     cargo run --release -p differential -- --node {} --seed {} --count {}",
                    plan.first_nonce,
                    node.sender,
                    plan.listing(),
                    node.options.url,
                    seeds.first,
                    seed - seeds.first + 1
                ),
            })?;
        report.seeds += 1;
        report.not_accepted += not_accepted;
    }
    let NodeReport {
        blocks,
        transactions,
        values,
        ..
    } = follower.report();
    Ok(NodeReport {
        blocks,
        transactions,
        values,
        ..report
    })
}

/// The transactions of a seed.
struct SeedPlan {
    first_nonce: u64,
    contracts: Vec<CaseAccount>,
    transactions: Vec<CaseTransaction>,
}

impl SeedPlan {
    fn listing(&self) -> String {
        let contracts = self
            .contracts
            .iter()
            .map(|contract| format!("contract {}\n{}", contract.address, contract.code.listing()));
        let calls = self.transactions.iter().skip(self.contracts.len());
        let calls = calls
            .enumerate()
            .map(|(index, call)| format!("call {index}: {}", call.listing(index)));
        contracts.chain(calls).collect()
    }
}

impl NamedNode {
    /// Connects to the node.
    ///
    /// # Errors
    /// If it cannot be reached, or has no account to send from.
    pub fn connect(options: NodeOptions) -> Result<Self, DifferentialError> {
        let host = options.url.strip_prefix("http://").unwrap_or(&options.url);
        let address = host
            .trim_end_matches('/')
            .to_socket_addrs()
            .map_err(|error| DifferentialError::Url {
                url: options.url.clone(),
                error,
            })?
            .next()
            .ok_or_else(|| DifferentialError::NoAddress(options.url.clone()))?;
        let mut node = Self {
            caller: Caller::new(address),
            sender: Address::ZERO,
            gas_price: U256::ZERO,
            options,
        };
        node.sender = match &node.options.key {
            Some(key) => key.address(),
            None => parse(&node.call("accounts", json!([]))?[0], "an account of the node")?,
        };
        node.gas_price = match node.options.gas_price {
            Some(price) => price,
            None => parse(&node.call("gasPrice", json!([]))?, "a gas price")?,
        };
        Ok(node)
    }

    /// Calls a method of the node's module.
    fn call(&self, method: &str, params: Value) -> Result<Value, DifferentialError> {
        let method = format!("{}_{method}", self.options.module);
        let called = self.try_call(&method, params);
        called.map_err(|error| DifferentialError::Call { method, error })
    }

    fn try_call(&self, method: &str, params: Value) -> Result<Value, RpcCallError> {
        self.caller.try_rpc(method, params)
    }

    fn nonce(&self) -> Result<u64, DifferentialError> {
        let count = self.call(
            "getTransactionCount",
            json!([hex::encode_prefixed(self.sender), "latest"]),
        )?;
        let count: U256 = parse(&count, "a nonce")?;
        Ok(count.saturating_to())
    }

    /// The deployments and calls of a seed, for the addresses that its contracts will have.
    fn plan(&self, seed: u64) -> Result<SeedPlan, DifferentialError> {
        let random = SeededRandom::new(seed, "named node");
        let first_nonce = self.nonce()?;
        let count = random.between(2, generate::CONTRACTS_MAX);
        let pool = AddressPool {
            contracts: (0..count)
                .map(|index| Transaction::created_address(&self.sender, first_nonce + index))
                .collect(),
            senders: vec![self.sender],
            others: generate::other_addresses(),
        };
        let rules = self.options.rules;
        let (contracts, calls) = generate::contracts_and_calls(&random, rules, &pool, CALLS);
        let mut transactions = Vec::new();
        for contract in &contracts {
            let mut code = generate::deployment(&random, rules, contract.code.clone());
            // The storage is written first.
            let writes = contract.storage.iter().flat_map(|(slot, value)| {
                let push = |word: &U256| Part::Push(word.to_be_bytes::<32>().to_vec());
                [push(value), push(slot), Part::Op(op::SSTORE)]
            });
            code = Program(writes.chain(code.0).collect());
            transactions.push(CaseTransaction {
                sender: 0,
                nonce_offset: 0,
                gas_price: self.gas_price,
                gas: deployment_gas(&code, contract),
                to: None,
                value: contract.balance,
                input: CaseInput::Code(code),
                access_list: None,
                signature: SignatureKind::Protected,
            });
        }
        for mut call in calls {
            call.gas_price = self.gas_price;
            call.gas = call.gas.clamp(100_000, CALL_GAS_MAX);
            call.value = call.value.min(U256::from(1_000_000));
            transactions.push(call);
        }
        Ok(SeedPlan {
            first_nonce,
            contracts,
            transactions,
        })
    }

    /// Sends the transactions and waits until all of them are mined. Returns how many the node has
    /// not accepted.
    fn send(&self, plan: &SeedPlan) -> Result<u64, DifferentialError> {
        let (mut nonce, mut not_accepted, mut last) = (plan.first_nonce, 0, None);
        for transaction in &plan.transactions {
            match self.send_one(transaction, nonce) {
                Ok(hash) => {
                    nonce += 1;
                    last = Some(hash);
                }
                Err(RpcCallError::Refused { .. }) => not_accepted += 1,
                Err(error) => {
                    let method = "sending a transaction".to_owned();
                    return Err(DifferentialError::Call { method, error });
                }
            }
        }
        if let Some(hash) = last {
            self.wait_until_mined(&hash)?;
        }
        Ok(not_accepted)
    }

    fn send_one(&self, planned: &CaseTransaction, nonce: u64) -> Result<Value, RpcCallError> {
        let input = planned.input.bytes();
        let Some(key) = &self.options.key else {
            let mut fields = json!({
                "from": hex::encode_prefixed(self.sender),
                "nonce": format!("{nonce:#x}"),
                "gas": format!("{:#x}", planned.gas),
                "gasPrice": format!("{:#x}", planned.gas_price),
                "value": format!("{:#x}", planned.value),
                "data": hex::encode_prefixed(input),
            });
            if let Some(to) = planned.to {
                fields["to"] = json!(hex::encode_prefixed(to));
            }
            let method = format!("{}_sendTransaction", self.options.module);
            return self.try_call(&method, json!([fields]));
        };
        let unsigned = UnsignedTransaction {
            tx_nonce: nonce,
            gas_price: planned.gas_price,
            gas: planned.gas,
            to: planned.to,
            value: planned.value,
            input: input.into(),
            ..Default::default()
        };
        let signed = unsigned.sign(key, self.options.spec.chain_id, self.options.form);
        let method = format!("{}_sendRawTransaction", self.options.module);
        self.try_call(&method, json!([hex::encode_prefixed(signed.encode_raw())]))
    }

    /// Waits until the transaction is mined. Those with lower nonces are mined by then, too.
    fn wait_until_mined(&self, hash: &Value) -> Result<(), DifferentialError> {
        let started = Instant::now();
        while self.call("getTransactionReceipt", json!([hash]))?.is_null() {
            if started.elapsed() > self.options.patience {
                return Err(DifferentialError::NotMined {
                    hash: hash.clone(),
                    patience: self.options.patience,
                });
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// Gas that is enough for a deployment: for its bytes as input and as code, and for its slots.
fn deployment_gas(code: &Program, contract: &CaseAccount) -> u64 {
    60_000 + 300 * code.assemble().len() as u64 + 20_100 * contract.storage.len() as u64
}

/// Reads a value from its text in hex.
fn parse<T: FromHexText>(value: &Value, expected: &str) -> Result<T, DifferentialError> {
    value
        .as_str()
        .and_then(T::from_hex_text)
        .ok_or_else(|| DifferentialError::Value {
            got: value.clone(),
            expected: expected.to_owned(),
        })
}

/// Values that nodes write as hex with 0x.
trait FromHexText: Sized {
    fn from_hex_text(text: &str) -> Option<Self>;
}

impl FromHexText for U256 {
    fn from_hex_text(text: &str) -> Option<Self> {
        Self::from_str_radix(text.strip_prefix("0x")?, 16).ok()
    }
}

impl FromHexText for u64 {
    fn from_hex_text(text: &str) -> Option<Self> {
        Self::from_str_radix(text.strip_prefix("0x")?, 16).ok()
    }
}

impl FromHexText for Vec<u8> {
    fn from_hex_text(text: &str) -> Option<Self> {
        hex::decode(text).ok()
    }
}

impl FromHexText for Address {
    fn from_hex_text(text: &str) -> Option<Self> {
        hex::decode_to_array(text).ok().map(Self::from)
    }
}

impl FromHexText for primitives::Bloom {
    fn from_hex_text(text: &str) -> Option<Self> {
        hex::decode_to_array(text).ok().map(Self::from)
    }
}

impl FromHexText for primitives::B256 {
    fn from_hex_text(text: &str) -> Option<Self> {
        hex::decode_to_array(text).ok().map(Self::from)
    }
}
