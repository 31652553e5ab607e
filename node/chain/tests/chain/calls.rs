//! Limits of calls and estimates: which calls are quick, when calls time out, and how close an
//! estimate is.

use std::fmt::Write;
use std::time::Duration;

use chain::call::{CallOutcome, CallRequest, EvmCallError, StateAt, TIMEOUT_DEFAULT};
use chain::query_limit::{CancelFlag, QueryLimit, QueryStop};
use chain::spec::Rule;
use chain::{ChainSpec, View};
use primitives::Address;

use crate::common::{Maker, account, hex};
use crate::run::rich;

/// JUMPDEST, PUSH1 0, JUMP.
const ENDLESS: &str = "5b600056";
const CONTRACT: Address = Address::repeat_byte(0xc0);
const CALLED: Address = Address::repeat_byte(0xc1);

/// A chain whose block 0 has these two contracts, and a request that calls the first one.
fn chain_with(code: &[u8], called: &[u8]) -> (View, CallRequest) {
    let mut spec = ChainSpec::dev();
    for (address, code) in [(CONTRACT, code), (CALLED, called)] {
        let mut contract = rich(1);
        contract.code = code.to_vec().into();
        spec.genesis.alloc.insert(address, contract);
    }
    let maker = Maker::new(spec);
    let view = View::new(maker.store(), maker.spec.clone()).expect("a view");
    let request = CallRequest {
        from: Some(account(0)),
        to: Some(CONTRACT),
        ..Default::default()
    };
    (view, request)
}

const GENESIS: StateAt<'_> = StateAt::Block(0);

#[test]
fn calls_that_read_much_are_not_quick() {
    let check = |code: &[u8], called: &[u8], is_quick: bool| {
        let (view, request) = chain_with(code, called);
        let quick = view.quick_call(GENESIS, &request).expect("a call");
        assert_eq!(quick.is_some(), is_quick, "{code:02x?}");
        if let Some(quick) = quick {
            let unlimited = view.call(GENESIS, &request, TIMEOUT_DEFAULT).expect("a call");
            assert_eq!(quick, unlimited, "{code:02x?}");
        }
    };
    // The last instruction makes a long output.
    check(&hex("61 1000 6000 f3"), &[], true);
    check(&hex("62 400000 6000 f3"), &[], false);
    check(&hex("62 400000 6000 fd"), &[], false);
    // Code that runs `word` and POP for each number below `count`.
    let each = |count: u8, word: &dyn Fn(u8) -> String| {
        let text = (0..count).fold(String::new(), |mut text, number| {
            write!(text, "{}50", word(number)).expect("memory");
            text
        });
        hex(&(text + "00"))
    };
    let slot = |number: u8| format!("60{number:02x}54");
    let balance = |number: u8| format!("61ff{number:02x}31");
    for word in [&slot as &dyn Fn(u8) -> String, &balance] {
        check(&each(8, word), &[], true);
        check(&each(20, word), &[], false);
    }
    // A slot that is read 200 times counts once.
    check(&each(200, &|_| slot(1)), &[], true);
    // Long code of the contract itself, and of a contract that it calls.
    check(&[0; 20_000], &[], true);
    check(&[0; 60_000], &[], false);
    let calls = hex(&format!("6000600060006000600073{}5af15000", "c1".repeat(20)));
    check(&calls, &[0; 20_000], true);
    check(&calls, &[0; 60_000], false);
}

#[test]
fn calls_refuse_memory_that_a_block_may_have() {
    let mut spec = ChainSpec::dev();
    crate::common::begin(&mut spec, &[Rule::Eip1014], None);
    let mut contract = rich(1);
    // CREATE2 of as many bytes as the input says.
    contract.code = hex("6000 6000 35 6000 6000 f5 00").into();
    spec.genesis.alloc.insert(CONTRACT, contract);
    let maker = Maker::new(spec);
    let view = View::new(maker.store(), maker.spec.clone()).expect("a view");
    let call = |bytes: u64| {
        let request = CallRequest {
            from: Some(account(0)),
            to: Some(CONTRACT),
            input: primitives::U256::from(bytes).to_be_bytes_vec().into(),
            ..Default::default()
        };
        view.call(GENESIS, &request, TIMEOUT_DEFAULT)
    };
    let within = call(1 << 20).expect("a call");
    assert!(matches!(within, CallOutcome::Success { .. }), "{within:?}");
    let beyond = call((1 << 20) + 1).expect_err("too much");
    assert!(
        matches!(&beyond, EvmCallError::Refused(text) if text.contains("got 1048577 bytes")),
        "{beyond}"
    );
}

#[test]
fn calls_and_estimates_time_out() {
    let timeout = Duration::from_millis(50);
    // More gas than the EVM uses in a day.
    let gas = Some(1 << 50);
    let aborted = |error: EvmCallError| {
        assert!(
            matches!(error, EvmCallError::Stopped(QueryStop::Timeout(got)) if got == timeout),
            "{error}"
        );
        assert_eq!(error.to_string(), "execution aborted (timeout = 50ms)");
    };
    let calls = hex(&format!("6000600060006000600073{}5af1", "c1".repeat(20)));
    let calls_forever = [&hex("5b")[..], &calls, &hex("50600056")].concat();
    for (code, called) in [
        (hex(ENDLESS), vec![]),
        // An endless inner call, and endless calls of a contract and of a precompiled contract.
        (calls, hex(ENDLESS)),
        (calls_forever, hex("00")),
        (hex("5b 6000600060006000600060025af1 50600056"), vec![]),
    ] {
        let (view, request) = chain_with(&code, &called);
        let request = CallRequest { gas, ..request };
        aborted(view.call(GENESIS, &request, timeout).expect_err("no end"));
        aborted(view.estimate_gas(GENESIS, &request, timeout).expect_err("no end"));
    }
    let (view, request) = chain_with(&hex("00"), &[]);
    let error = view.estimate_gas(GENESIS, &request, Duration::ZERO);
    assert!(
        matches!(
            error,
            Err(EvmCallError::Stopped(QueryStop::Timeout(Duration::ZERO)))
        ),
        "{error:?}"
    );
}

#[test]
fn endless_calls_stop_when_nobody_waits() {
    let (view, request) = chain_with(&hex(ENDLESS), &[]);
    let request = CallRequest {
        gas: Some(1 << 50),
        ..request
    };
    let abandoned = CancelFlag::default();
    let work = QueryLimit::new(Duration::MAX).cancelled_by(&abandoned);
    std::thread::scope(|scope| {
        let call = scope.spawn(|| view.call(GENESIS, &request, work.clone()));
        let estimate = scope.spawn(|| view.estimate_gas(GENESIS, &request, work.clone()));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!call.is_finished() && !estimate.is_finished());
        abandoned.cancel();
        let call = call.join().expect("no panic");
        assert!(
            matches!(call, Err(EvmCallError::Stopped(QueryStop::Cancelled))),
            "{call:?}"
        );
        let estimate = estimate.join().expect("no panic");
        assert!(
            matches!(estimate, Err(EvmCallError::Stopped(QueryStop::Cancelled))),
            "{estimate:?}"
        );
    });
}

#[test]
fn an_estimate_suffices_and_exceeds_the_minimum_by_at_most_a_64th() {
    let check = |code: &str, called: &str, least: u64| {
        let (view, request) = chain_with(&hex(code), &hex(called));
        let estimate = view
            .estimate_gas(GENESIS, &request, TIMEOUT_DEFAULT)
            .expect("it succeeds");
        let with = |gas| {
            let request = CallRequest {
                gas: Some(gas),
                ..request.clone()
            };
            let outcome = view.call(GENESIS, &request, TIMEOUT_DEFAULT);
            matches!(outcome, Ok(CallOutcome::Success { .. }))
        };
        assert_eq!((with(least - 1), with(least)), (false, true), "{code}");
        assert!(with(estimate), "{code}: {estimate}");
        assert!(
            (least..=least + estimate / 64).contains(&estimate),
            "{code}: {estimate}, the least is {least}"
        );
    };
    check("00", "", 1000);
    check("6001600055 00", "", 21_006);
    // Continues only if more than 500,000 gas is left, but uses very little: PUSH3, GAS, GT, PUSH1,
    // JUMPI, INVALID, JUMPDEST, STOP.
    check("6207a120 5a 11 600a 57 fe 5b 00", "", 501_006);
    check("62010000 5a 11 600a 57 fe 5b 00", "", 66_542);
}
