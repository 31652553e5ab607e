//! A chain with the proportions of Ethereum Classic (docs/etc.md, 3), made from nothing.
//!
//! Two kinds of blocks: full ones, whose transactions make thousands of small contracts, as in the
//! time of `GasToken`, and ordinary ones. Seals are empty. Knows the chain and its blocks; does not
//! measure.

use std::sync::Arc;

use bench::{CHAIN_ID, Failure, SENDERS, chain_spec, next_block, receiver, sender_key};
use chain::ChainSpec;
use chain::spec::GenesisAccount;
use primitives::{Address, Block, SecretKey, Transaction, TxForm, U256, UnsignedTransaction, keccak256};
use store::Store;

/// Lowest gas limit of a block.
const GAS_LIMIT_MIN: u64 = 20_000_000_000;
/// Gas limit for each contract that a full block makes.
const GAS_LIMIT_A_CONTRACT: u64 = CONTRACT_GAS + 600;
/// Contracts that one transaction makes in a full block.
pub(crate) const CONTRACTS_A_TRANSACTION: u64 = 500;
/// Gas to make a contract: CREATE, a byte of code, and the loop around.
const CONTRACT_GAS: u64 = 32_400;
/// Gas of a transfer. The code of an old contract takes 2 more than a transfer without code.
const TRANSFER_GAS: u64 = 21_002;
const CALL_GAS: u64 = 60_000;
/// Every so many ordinary blocks there is a transaction that makes contracts, and how many.
const MAKING_INTERVAL: u64 = 3;
const MADE_CONTRACTS: u64 = 7;
/// Accounts that an ordinary block adds: 86 million accounts in 25.8 million blocks are 3.33.
pub(crate) const ACCOUNTS_A_BLOCK: f64 = 1.0 + MADE_CONTRACTS as f64 / MAKING_INTERVAL as f64;

const FACTORY: Address = Address::repeat_byte(0xfa);
/// Makes as many contracts as the input's word says. Each has one byte of code, CALLER.
const FACTORY_CODE: [u8; 40] = [
    // PUSH10 the init code, PUSH1 0, MSTORE. The init code stores CALLER and returns it:
    // PUSH1 33, PUSH1 0, MSTORE, PUSH1 1, PUSH1 1f, RETURN.
    0x69, 0x60, 0x33, 0x60, 0x00, 0x52, 0x60, 0x01, 0x60, 0x1f, 0xf3, 0x60, 0x00, 0x52, //
    // PUSH1 0, CALLDATALOAD; at 17: JUMPDEST, DUP1, ISZERO, PUSH1 38, JUMPI.
    0x60, 0x00, 0x35, 0x5b, 0x80, 0x15, 0x60, 0x26, 0x57, //
    // PUSH1 10, PUSH1 22, PUSH1 0, CREATE, POP.
    0x60, 0x0a, 0x60, 0x16, 0x60, 0x00, 0xf0, 0x50, //
    // PUSH1 1, SWAP1, SUB, PUSH1 17, JUMP; at 38: JUMPDEST, STOP.
    0x60, 0x01, 0x90, 0x03, 0x60, 0x11, 0x56, 0x5b, 0x00,
];

const STORAGE: Address = Address::repeat_byte(0x57);
/// Writes the input's second word into the slot of the first: PUSH1 20, CALLDATALOAD, PUSH1 0,
/// CALLDATALOAD, SSTORE, STOP.
const STORAGE_CODE: [u8; 8] = [0x60, 0x20, 0x35, 0x60, 0x00, 0x35, 0x55, 0x00];

/// Makes blocks, each on the head of a store.
#[derive(Clone)]
pub(crate) struct BlockMaker {
    spec: Arc<ChainSpec>,
    keys: Arc<[SecretKey]>,
    /// Transactions so far. The senders take turns.
    sent: u64,
    /// Contracts so far. Their addresses follow from their number.
    contracts: u64,
    ordinary_blocks: u64,
}

impl BlockMaker {
    /// Full blocks will make `full` contracts each.
    pub(crate) fn begin(full: u64) -> Result<Self, Failure> {
        let keys = (0..SENDERS).map(sender_key).collect::<Result<Vec<_>, _>>()?;
        let mut spec = chain_spec(GAS_LIMIT_MIN.max(full.saturating_mul(GAS_LIMIT_A_CONTRACT)))?;
        for key in &keys {
            let account = GenesisAccount {
                balance: U256::from(10).pow(U256::from(27)),
                ..Default::default()
            };
            spec.genesis.alloc.insert(key.address(), account);
        }
        for (address, code) in [(FACTORY, &FACTORY_CODE[..]), (STORAGE, &STORAGE_CODE[..])] {
            let account = GenesisAccount {
                tx_nonce: 1,
                code: code.to_vec().into(),
                ..Default::default()
            };
            spec.genesis.alloc.insert(address, account);
        }
        Ok(Self {
            spec: Arc::new(spec),
            keys: keys.into(),
            sent: 0,
            contracts: 0,
            ordinary_blocks: 0,
        })
    }

    pub(crate) const fn spec(&self) -> &Arc<ChainSpec> {
        &self.spec
    }

    /// Goes on after `blocks` full blocks of an earlier run. Returns the contracts that they made.
    pub(crate) const fn skip_full_blocks(&mut self, blocks: u64, transactions: u64) -> u64 {
        self.sent += blocks * transactions;
        self.contracts += blocks * transactions * CONTRACTS_A_TRANSACTION;
        self.contracts
    }

    /// A block that makes `transactions` times [`CONTRACTS_A_TRANSACTION`] contracts.
    pub(crate) fn full_block(&mut self, store: &Store, transactions: u64) -> Result<Block, Failure> {
        let transactions = (0..transactions)
            .map(|_| self.making(CONTRACTS_A_TRANSACTION))
            .collect();
        next_block(&self.spec, store, transactions)
    }

    /// A block with a transfer to an old account, one to a new account, a new slot, and sometimes
    /// new contracts.
    pub(crate) fn ordinary_block(&mut self, store: &Store) -> Result<Block, Failure> {
        let number = self.ordinary_blocks;
        self.ordinary_blocks += 1;
        // The nonce of the factory begins at 1. Its contracts look random in the state.
        let known = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.contracts.max(1);
        let known = FACTORY.create(1 + known);
        let slot = keccak256(number.to_be_bytes());
        let slot = [slot.as_slice(), &U256::from(number + 1).to_be_bytes::<32>()].concat();
        let mut transactions = vec![
            self.transaction(known, 1, Vec::new(), TRANSFER_GAS),
            self.transaction(receiver(number), 1, Vec::new(), TRANSFER_GAS),
            self.transaction(STORAGE, 0, slot, CALL_GAS),
        ];
        if number.is_multiple_of(MAKING_INTERVAL) {
            transactions.push(self.making(MADE_CONTRACTS));
        }
        next_block(&self.spec, store, transactions)
    }

    fn making(&mut self, contracts: u64) -> Transaction {
        let input = U256::from(contracts).to_be_bytes::<32>().to_vec();
        self.contracts += contracts;
        self.transaction(FACTORY, 0, input, CALL_GAS + contracts * CONTRACT_GAS)
    }

    fn transaction(&mut self, to: Address, value: u64, input: Vec<u8>, gas: u64) -> Transaction {
        let index = self.sent;
        self.sent += 1;
        let unsigned = UnsignedTransaction {
            tx_nonce: index / SENDERS,
            gas_price: U256::from(1_000_000_000u64),
            gas,
            to: Some(to),
            value: U256::from(value),
            input: input.into(),
            ..Default::default()
        };
        let key = &self.keys[(index % SENDERS) as usize];
        unsigned.sign(key, CHAIN_ID, TxForm::Ethereum)
    }
}
