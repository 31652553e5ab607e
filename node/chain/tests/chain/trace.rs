//! Traces match the execution: gas, success and slots of every transaction, by the rules of the
//! public network with its system transaction and its refund of failed calls.

use std::sync::Arc;
use std::time::Duration;

use chain::evm::precompiles::NOTIFY_SCS;
use chain::mining::build::build;
use chain::pool::PoolConfig;
use chain::query_limit::{CancelFlag, QueryLimit, QueryStop};
use chain::rules::seal::SealCheck;
use chain::spec::GenesisAccount;
use chain::trace::{
    CallFrame, CallOptions, StepOptions, StepTrace, TIMEOUT_DEFAULT, Trace, TraceError, TraceRequest, Tracer,
};
use chain::view::StoredBlock;
use chain::{Chain, ChainConfig, ChainSpec, View};
use primitives::{Address, B256, ReceiptOutcome, SYSTEM_CONTRACT, SYSTEM_SENDER, Transaction, U256};
use store::Store;

use crate::common::{account, deploys, hex, sign, unsigned};

/// A contract that counts its calls in slot 0.
const COUNTER: &str = "6000 54 6001 01 6000 55 00";

/// A chain whose system contract has this code.
fn open_chain(system: &str) -> Chain {
    let mut spec = ChainSpec {
        failed_calls_refund_gas: true,
        system_contract: true,
        ..ChainSpec::dev()
    };
    let contract = GenesisAccount {
        code: hex(system).into(),
        ..Default::default()
    };
    spec.genesis.alloc.insert(SYSTEM_CONTRACT, contract);
    let config = ChainConfig {
        spec: Arc::new(spec),
        seals: SealCheck::Off,
        forks: chain::import::ForkLimits::default(),
        pool: PoolConfig::default(),
        beneficiary: Address::repeat_byte(0xbe),
        extra_data: Default::default(),
        states: chain::import::StateRetention::Archive,
    };
    Chain::open(Store::in_memory().expect("a store"), config).expect("a chain")
}

/// Builds and imports the next block with the system transaction and these transactions.
fn next_block(chain: &Chain, transactions: Vec<Transaction>) -> (View, StoredBlock) {
    let count = transactions.len() + 1;
    for transaction in transactions {
        chain.submit_transaction(transaction).expect("a good transaction");
    }
    let (view, settings) = (chain.view().expect("a view"), chain.settings());
    // The timestamps are in the past, so that no block waits for the clock.
    let timestamp = view.head().header.timestamp + 1;
    let ready = chain.pool().ready();
    let draft = build(
        chain.spec(),
        view.snapshot(),
        view.head(),
        timestamp,
        &settings,
        ready,
        &[],
    );
    chain.import(draft.expect("a block").block).expect("a good block");
    let view = chain.view().expect("a view");
    let stored = view.block(view.head_number()).expect("a read").expect("the head");
    assert_eq!(stored.body.transactions.len(), count);
    (view, stored)
}

fn request(tracer: Tracer) -> TraceRequest {
    TraceRequest::new(tracer, TIMEOUT_DEFAULT)
}

fn steps(view: &View, block: &StoredBlock) -> Vec<StepTrace> {
    let options = StepOptions {
        stack: true,
        memory: true,
        storage: true,
        limit: None,
    };
    let traces = view.trace_block(block, &request(Tracer::Steps(options)));
    let each = |trace| match trace {
        Trace::Steps(steps) => steps,
        other => panic!("got {other:?}, expected steps"),
    };
    traces.expect("a trace").into_iter().map(each).collect()
}

fn calls(view: &View, block: &StoredBlock) -> Vec<CallFrame> {
    let traces = view.trace_block(block, &request(Tracer::Calls(CallOptions::default())));
    let each = |trace| match trace {
        Trace::Calls(calls) => calls,
        other => panic!("got {other:?}, expected calls"),
    };
    traces.expect("a trace").into_iter().map(each).collect()
}

#[test]
fn gas_and_success_match_the_receipts() {
    let chain = open_chain(COUNTER);
    let [thrower, caller, ender, spender, jumper] =
        [0, 1, 2, 3, 4].map(|nonce| Transaction::created_address(&account(0), nonce));
    let target = thrower.to_string()[2..].to_owned();
    let calls_twice = format!(
        "6000 6000 6000 6000 6000 73 {target} 61ffff f1 50 6000 6000 6000 6000 73 {target} 61ffff f4 50 00"
    );
    // With input, this contract uses all its gas. Without input, it calls itself with one byte of
    // input and little gas, and then sends a notice.
    let spends = "36 6025 57 6000 6000 6001 6000 6000 30 610408 f1 50 \
                  6000 6000 6000 6000 6000 600d 61ffff f1 00 5b 5a 50 6025 56";
    let create = |nonce, code: &str| sign(0, &unsigned(nonce, None, 0, &deploys(&hex(code))));
    let created = vec![
        create(0, "fe"),
        create(1, &calls_twice),
        create(2, "33 ff"),
        create(3, spends),
        create(4, "60ff 56"),
    ];
    let (first_view, first) = next_block(&chain, created);
    let (view, second) = next_block(
        &chain,
        vec![
            sign(1, &unsigned(0, Some(caller), 0, &[])),
            sign(2, &unsigned(0, Some(thrower), 0, &[])),
            sign(3, &unsigned(0, Some(ender), 9, &[])),
            sign(4, &unsigned(0, Some(account(5)), 7, &[])),
            sign(5, &unsigned(0, None, 0, &hex("fe"))),
            sign(6, &unsigned(0, Some(spender), 0, &[])),
            sign(7, &unsigned(0, Some(spender), 0, &[1])),
            sign(8, &unsigned(0, Some(jumper), 0, &[])),
        ],
    );
    for (view, block) in [(&first_view, &first), (&view, &second)] {
        let receipts = view.receipts(&block.id()).expect("a read").expect("receipts");
        let (steps, calls) = (steps(view, block), calls(view, block));
        let mut before = 0;
        for (index, receipt) in receipts.iter().enumerate() {
            let used = receipt.cumulative_gas_used - before;
            before = receipt.cumulative_gas_used;
            assert_eq!(
                (steps[index].gas, calls[index].gas_used),
                (used, used),
                "transaction {index}"
            );
            let failed = receipt.outcome == ReceiptOutcome::Status(false);
            assert_eq!(
                (steps[index].failed, calls[index].error.is_some()),
                (failed, failed),
                "{index}"
            );
        }
        // The trace of a single transaction is the same as in the trace of the block.
        let last = receipts.len() - 1;
        let alone = view.trace_transaction(block, last, &request(Tracer::Calls(CallOptions::default())));
        assert_eq!(alone.expect("a trace"), Trace::Calls(calls[last].clone()));
    }

    let traced = calls(&view, &second);
    let by_sender = |sender: Address| {
        let index = second.body.senders.iter().position(|other| *other == sender);
        &traced[index.expect("a transaction of this sender")]
    };
    let system = &traced[0];
    assert_eq!((system.from, system.to), (SYSTEM_SENDER, Some(SYSTEM_CONTRACT)));
    assert_eq!((system.gas_used, system.error.as_ref()), (0, None));
    // The gas of a failed CALL goes back. A failed DELEGATECALL burns it.
    let [call, delegated] = &by_sender(account(1)).calls[..] else {
        panic!("expected two calls: {traced:?}")
    };
    assert_eq!((call.kind, call.gas, call.gas_used), ("CALL", 0xffff, 0));
    assert_eq!(
        (delegated.kind, delegated.gas, delegated.gas_used),
        ("DELEGATECALL", 0xffff, 0xffff)
    );
    assert_eq!((delegated.from, delegated.to), (caller, Some(thrower)));
    for failed in [call, delegated] {
        assert_eq!(failed.error.as_deref(), Some("Invalid opcode"));
    }
    let ended = &by_sender(account(3)).calls[0];
    assert_eq!(
        (ended.kind, ended.from, ended.to),
        ("SELFDESTRUCT", ender, Some(account(3)))
    );
    assert_eq!(ended.value, Some(U256::from(9)));
    let failed = by_sender(account(5));
    assert_eq!((failed.kind, failed.to), ("CREATE", None));
    // A CALL that runs out of gas gives back the gas that it had before its last instruction.
    let [spent, notice] = &by_sender(account(6)).calls[..] else {
        panic!("expected two calls: {traced:?}")
    };
    assert_eq!((spent.gas, spent.gas_used), (0x408, 0x407));
    assert_eq!(spent.error.as_deref(), Some("out of gas"));
    assert_eq!(
        (notice.to, notice.gas_used, &notice.error),
        (Some(NOTIFY_SCS), 2000, &None)
    );
    assert_eq!(
        view.notices(&second.id()).expect("a read").map(|all| all.len()),
        Some(1)
    );
}

#[test]
fn a_transfer_by_the_system_contract_is_traced_with_its_accounts() {
    // Calls 0x0c with its own input.
    let chain = open_chain("36 6000 6000 37 6000 6000 36 6000 6000 600c 5a f1 00");
    let mut data = vec![0; 112];
    data[16..36].copy_from_slice(account(3).as_slice());
    data[48..68].copy_from_slice(account(4).as_slice());
    data[111] = 9;
    let (view, head) = next_block(
        &chain,
        vec![sign(1, &unsigned(0, Some(SYSTEM_CONTRACT), 0, &data))],
    );
    let top = &calls(&view, &head)[1];
    let [sent] = &top.calls[..] else {
        panic!("expected a call: {top:?}")
    };
    assert_eq!(
        (sent.from, sent.to, sent.value, &sent.error),
        (account(3), Some(account(4)), Some(U256::from(9)), &None)
    );
    let balance = |number| {
        let account = view.account(&account(4), number).expect("a read");
        account.expect("an account with a balance").balance
    };
    assert_eq!(balance(1) - balance(0), U256::from(9));
}

#[test]
fn each_block_is_traced_on_its_parents_state() {
    let chain = open_chain(COUNTER);
    let (first_view, first) = next_block(&chain, Vec::new());
    let (view, second) = next_block(&chain, Vec::new());
    for (view, block, read) in [(&first_view, &first, 0), (&view, &first, 0), (&view, &second, 1)] {
        let trace = &steps(view, block)[0];
        let slots: Vec<_> = trace
            .steps
            .iter()
            .filter_map(|step| step.storage.clone())
            .collect();
        let expected = [read, read + 1].map(|value| [(U256::ZERO, U256::from(value))].into());
        assert_eq!(slots, expected);
        let range = |index| {
            let range = view.storage_range(block, index, &SYSTEM_CONTRACT, B256::ZERO, 9, TIMEOUT_DEFAULT);
            let entries = range.expect("a range").entries;
            entries.first().map_or(U256::ZERO, |entry| entry.value)
        };
        assert_eq!([range(0), range(1)], [read, read + 1].map(U256::from));
    }
}

#[test]
fn requests_that_cannot_be_traced_are_errors() {
    let chain = open_chain(COUNTER);
    let (view, head) = next_block(&chain, Vec::new());
    let calls = request(Tracer::Calls(CallOptions {
        only_top: true,
        ..CallOptions::default()
    }));
    let genesis = view.block(0).expect("a read").expect("block 0");
    assert!(matches!(
        view.trace_block(&genesis, &calls),
        Err(TraceError::Genesis)
    ));
    let none = view.trace_transaction(&head, 1, &calls);
    assert!(
        matches!(none, Err(TraceError::NoTransaction { got: 1, count: 1 })),
        "{none:?}"
    );
    let no_time = TraceRequest {
        limit: Duration::ZERO.into(),
        ..calls
    };
    assert!(matches!(
        view.trace_block(&head, &no_time),
        Err(TraceError::Stopped(QueryStop::Timeout(Duration::ZERO)))
    ));
    let abandoned = CancelFlag::default();
    abandoned.cancel();
    let abandoned = TraceRequest {
        limit: QueryLimit::new(TIMEOUT_DEFAULT).cancelled_by(&abandoned),
        ..calls
    };
    assert!(matches!(
        view.trace_block(&head, &abandoned),
        Err(TraceError::Stopped(QueryStop::Cancelled))
    ));
    let mut stranger = head;
    stranger.record.header.parent_hash = B256::repeat_byte(1);
    let off = view.trace_block(&stranger, &calls);
    assert!(
        matches!(off, Err(TraceError::OffChain { number: 1, .. })),
        "{off:?}"
    );
}
