//! A test case: the accounts of block 0 and what the blocks contain. It is a plan: nonces and
//! signatures are made when the case is run.

use std::collections::BTreeMap;
use std::fmt::Write;

use primitives::{AccessListEntry, Address, SecretKey, U256, hex, keccak256};

use crate::program::Program;
use crate::rules::ForkRules;

/// The number of accounts that send transactions. The last one has little money.
pub const SENDERS: usize = 3;

/// An account of block 0.
#[derive(Clone, Debug)]
pub struct CaseAccount {
    /// Its address.
    pub address: Address,
    /// Its balance.
    pub balance: U256,
    /// Its nonce.
    pub nonce: u64,
    /// Its code.
    pub code: Program,
    /// Its storage.
    pub storage: BTreeMap<U256, U256>,
}

/// The kind of a transaction's signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureKind {
    /// Without a chain id. Rules that have no such signatures get one with the chain's id.
    Plain,
    /// With the chain's id (EIP-155).
    Protected,
    /// With the id of another chain.
    OtherChain,
    /// With an s in the upper half.
    HighS,
    /// With an r of zero.
    Broken,
}

/// The input of a transaction.
#[derive(Clone, Debug)]
pub enum CaseInput {
    /// Bytes.
    Bytes(Vec<u8>),
    /// Code, mostly of a creation.
    Code(Program),
}

impl CaseInput {
    /// The bytes.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::Code(program) => program.assemble(),
        }
    }
}

/// A transaction that may be invalid.
#[derive(Clone, Debug)]
pub struct CaseTransaction {
    /// Index of the sender.
    pub sender: usize,
    /// The difference between the nonce and the right one.
    pub nonce_offset: i64,
    /// Price of gas.
    pub gas_price: U256,
    /// The most gas.
    pub gas: u64,
    /// The recipient; `None` for a creation.
    pub to: Option<Address>,
    /// The value.
    pub value: U256,
    /// The input.
    pub input: CaseInput,
    /// The access list; `None` for a transaction without a type.
    pub access_list: Option<Vec<AccessListEntry>>,
    /// The signature.
    pub signature: SignatureKind,
}

/// A block.
#[derive(Clone, Debug)]
pub struct CaseBlock {
    /// The beneficiary.
    pub beneficiary: Address,
    /// Seconds after the parent.
    pub seconds: u64,
    /// Extra data.
    pub extra: Vec<u8>,
    /// The beneficiary of an uncle, which is a sibling of the parent.
    pub uncle: Option<Address>,
    /// The transactions, in order. Invalid ones are left out of the block.
    pub transactions: Vec<CaseTransaction>,
}

/// A chain of a few blocks.
#[derive(Clone, Debug)]
pub struct Case {
    /// The seed that it was made from.
    pub seed: u64,
    /// The rules.
    pub rules: &'static ForkRules,
    /// The gas limit of all blocks.
    pub gas_limit: u64,
    /// The base fee of all blocks; 0 by rules without one.
    pub base_fee: u64,
    /// The accounts of block 0, those of the senders included.
    pub accounts: Vec<CaseAccount>,
    /// The blocks.
    pub blocks: Vec<CaseBlock>,
}

/// The key of a sender.
///
/// # Panics
/// Never: the digests of these few texts are keys.
pub fn sender_key(index: usize) -> SecretKey {
    let digest = keccak256(format!("differential sender {index}"));
    SecretKey::from_bytes(digest.as_slice()).expect("almost every number of 256 bits is a key")
}

impl Case {
    /// Whether the rules say what happens to an account of block 0. The specification of Shanghai
    /// has left out EIP-161, because Ethereum has no empty accounts any more; Mystique's cases have
    /// them.
    pub fn is_specified(&self, account: &CaseAccount) -> bool {
        self.rules.specification != Some("shanghai") || !account.is_empty()
    }

    /// The case as text: accounts, programs and transactions.
    pub fn listing(&self) -> String {
        let mut text = format!(
            "seed {} of {}, gas limit {}{}\n",
            self.seed,
            self.rules.name,
            self.gas_limit,
            if self.rules.base_fee {
                format!(", base fee {}", self.base_fee)
            } else {
                String::new()
            }
        );
        // Writing to a string cannot fail.
        for account in &self.accounts {
            let _ = writeln!(
                text,
                "account {} balance {} nonce {}",
                account.address, account.balance, account.nonce
            );
            for (slot, value) in &account.storage {
                let _ = writeln!(text, "  slot {slot:#x} = {value:#x}");
            }
            text += &indented(&account.code.listing());
        }
        for (number, block) in (1..).zip(&self.blocks) {
            let _ = writeln!(
                text,
                "block {number}: beneficiary {}, {} s after its parent, uncle {:?}",
                block.beneficiary, block.seconds, block.uncle
            );
            for (index, transaction) in block.transactions.iter().enumerate() {
                text += &indented(&transaction.listing(index));
            }
        }
        text
    }
}

impl CaseAccount {
    /// Whether rules with EIP-161 remove it when it is touched.
    pub fn is_empty(&self) -> bool {
        self.nonce == 0 && self.balance.is_zero() && self.code.0.is_empty()
    }
}

impl CaseTransaction {
    /// The transaction as text.
    pub fn listing(&self, index: usize) -> String {
        let to = self
            .to
            .map_or_else(|| "a new contract".to_owned(), |to| to.to_string());
        let mut text = format!(
            "transaction {index}: sender {} (nonce {:+}) to {to}, value {}, gas {} for {}, {:?}\n",
            self.sender, self.nonce_offset, self.value, self.gas, self.gas_price, self.signature
        );
        for AccessListEntry { address, slots } in self.access_list.iter().flatten() {
            text += &format!("  lists {address} with the slots {slots:?}\n");
        }
        text += &indented(&match &self.input {
            CaseInput::Bytes(bytes) => format!("input 0x{}\n", hex::encode(bytes)),
            CaseInput::Code(program) => program.listing(),
        });
        text
    }
}

fn indented(text: &str) -> String {
    text.lines().fold(String::new(), |mut all, line| {
        let _ = writeln!(all, "  {line}");
        all
    })
}
