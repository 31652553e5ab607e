//! Executing one transaction on a few accounts: a program, and another program that it may call.
//!
//! The transaction is executed after block 0 of the dev network with those accounts, as part of
//! block `number`. Nothing is written.

use chain::ChainSpec;
use chain::evm::execute::Executor;
use chain::genesis::{ensure_genesis, genesis_header};
use chain::spec::{ChainFamily, GenesisAccount, Rule};
use chain::state::BlockState;
use primitives::{Address, Header, Log, TxForm, U256};
use revm::Database;
use store::{ScsNotice, Store};

use crate::common::{account, begin, hex, key, unsigned};

/// Address of the program under test.
pub(crate) const PROGRAM: Address = Address::repeat_byte(0xc0);
/// Address of a second program that the first one may call.
pub(crate) const CALLEE: Address = Address::repeat_byte(0xca);
/// Address of an account without code.
pub(crate) const EXISTING: Address = Address::repeat_byte(0xee);
/// Address without an account.
pub(crate) const MISSING: Address = Address::repeat_byte(0xdd);

/// One transaction: a call of a program, or a contract creation.
pub(crate) struct Run {
    pub(crate) spec: ChainSpec,
    pub(crate) number: u64,
    pub(crate) create: bool,
    pub(crate) to: Address,
    pub(crate) input: Vec<u8>,
    pub(crate) gas: u64,
    /// The accounts whose balances are returned.
    pub(crate) watched: Vec<Address>,
}

/// The result of the transaction.
pub(crate) struct Ran {
    pub(crate) gas_used: u64,
    pub(crate) success: bool,
    pub(crate) slots: [U256; 3],
    pub(crate) callee_slot: U256,
    pub(crate) logs: Vec<Log>,
    pub(crate) notices: Vec<ScsNotice>,
    pub(crate) created_code_bytes: Option<usize>,
    /// The balances of the watched accounts.
    pub(crate) balances: Vec<U256>,
}

/// A contract with this code, which is given in hex.
pub(crate) fn contract(code: &str) -> GenesisAccount {
    GenesisAccount {
        code: hex(code).into(),
        tx_nonce: 1,
        ..Default::default()
    }
}

impl Run {
    /// `program` has the balance 5, and its slot 1 has the value 1. `callee` has neither. The
    /// opcodes are those of the public network.
    pub(crate) fn new(program: &str, callee: &str) -> Self {
        let mut spec = ChainSpec::dev();
        begin(&mut spec, &[Rule::Eip1014], None);
        let mut first = contract(program);
        first.balance = U256::from(5);
        first.storage.insert(U256::from(1), U256::from(1));
        let alloc = &mut spec.genesis.alloc;
        alloc.insert(PROGRAM, first);
        alloc.insert(CALLEE, contract(callee));
        alloc.insert(EXISTING, rich(1));
        Self {
            spec,
            number: 1,
            create: false,
            to: PROGRAM,
            input: Vec::new(),
            gas: 1_000_000,
            watched: Vec::new(),
        }
    }

    pub(crate) fn run(&self) -> Ran {
        let store = Store::in_memory().expect("store");
        ensure_genesis(&store, &self.spec).expect("genesis");
        let view = store.snapshot().expect("snapshot");
        let header = Header {
            number: self.number,
            gas_limit: 100_000_000,
            beneficiary: Address::repeat_byte(0xbe),
            difficulty: U256::from(512),
            timestamp: 10,
            ..Default::default()
        };
        let root = genesis_header(&self.spec).state_root;
        let mut state = BlockState::new(&*view, 0, root);
        let mut executor = Executor::new(&self.spec, &header, &mut state);
        let mut plain = unsigned(0, (!self.create).then_some(self.to), 0, &self.input);
        plain.gas = self.gas;
        let form = match self.spec.family {
            ChainFamily::Moac => TxForm::Native,
            ChainFamily::Ethereum => TxForm::Ethereum,
        };
        let outcome = executor
            .transaction(&plain.sign(&key(0), self.spec.chain_id, form), account(0))
            .expect("a valid transaction");
        let executed = executor.finish(&[]).expect("finish");
        let mut slot = |address, slot| state.storage(address, U256::from(slot)).expect("slot");
        let slots = [slot(PROGRAM, 0), slot(PROGRAM, 1), slot(PROGRAM, 2)];
        let callee_slot = slot(CALLEE, 0);
        let balance = |address: &Address| state.balance_and_nonce(*address).expect("account").0;
        let balances = self.watched.iter().map(balance).collect();
        let created = primitives::Transaction::created_address(&account(0), 0);
        let info = state.basic(created).expect("account");
        let code_hash = info.map(|info| info.code_hash);
        let code = code_hash.map(|hash| state.code_by_hash(hash).expect("code"));
        Ran {
            gas_used: outcome.gas_used,
            success: outcome.success,
            slots,
            callee_slot,
            logs: executed.receipts[0].logs.clone(),
            notices: executed.notices,
            balances,
            created_code_bytes: code.map(|code| code.original_byte_slice().len()),
        }
    }
}

pub(crate) fn rich(balance: u64) -> GenesisAccount {
    GenesisAccount {
        balance: U256::from(balance),
        ..Default::default()
    }
}
