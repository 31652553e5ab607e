//! 0x0d, `notifySCS`: a contract tells the application chains something.
//!
//! It costs 2000 gas, answers the word 1 whatever this node serves or relays, and leaves a
//! notice: who called, with what.
//!
//! A notice must go where its call goes: with a reverted frame however deep, with one that ran
//! out of gas, with the whole transaction; and a call, an estimate or a trace must leave none.
//! That is what revm's journal does for logs, so a notice travels as a log of address 0x0d and
//! [`take_notices`] takes it out of the result before anyone sees logs. No real log is taken for
//! one: a log bears the address in whose name code runs, and none ever runs in the name of a
//! built-in contract; what is called there is this file. The bloom and the receipts are made of
//! the logs that are left.
//!
//! The notice bears the account in whose name the calling code runs. With a delegate call that
//! is not what the called code would see as its caller: were it that, any contract could speak
//! in the name of whoever calls it. A static call is charged and answered like others and leaves
//! nothing, which it promises.

use primitives::{Address, Bytes, address};
use revm::context_interface::{ContextTr, JournalTr};
use revm::interpreter::{CallInputs, CallScheme};
use revm::primitives::{Log, LogData};

use super::network::{PrecompileOutcome, word};

/// Where it lies.
pub const NOTIFY_SCS: Address = address!("000000000000000000000000000000000000000d");
/// What a call of it costs.
const NOTIFY_GAS: u64 = 2000;
/// A call with more input leaves no notice. The cost of a call does not grow with its input:
/// without a bound one block could leave gigabytes. The network's contracts tell 68 bytes.
pub const NOTICE_BYTES_MAX: usize = 1024;

/// A notice of the transaction that ran: who told it, and what.
pub(crate) type EmittedNotice = (Address, Bytes);

/// Runs a call of 0x0d. That gas is too little is said by who takes the cost.
pub(super) fn run<CTX: ContextTr>(
    context: &mut CTX,
    inputs: &CallInputs,
    answers_word: bool,
) -> PrecompileOutcome {
    let paid = inputs.gas_limit >= NOTIFY_GAS;
    if paid && !inputs.is_static && inputs.input.len() <= NOTICE_BYTES_MAX {
        let teller = match inputs.scheme {
            CallScheme::Call | CallScheme::StaticCall => inputs.caller,
            CallScheme::CallCode | CallScheme::DelegateCall => inputs.target_address,
        };
        let input = inputs.input.bytes(context);
        context.journal_mut().log(Log {
            address: NOTIFY_SCS,
            data: LogData::new_unchecked(vec![teller.into_word()], input),
        });
    }
    PrecompileOutcome::Returned {
        cost: NOTIFY_GAS,
        output: if answers_word { word(1) } else { Bytes::new() },
    }
}

/// Takes the notices out of the logs of a transaction, each in its order.
pub(crate) fn take_notices(logs: &mut Vec<Log>) -> Vec<EmittedNotice> {
    let left = |log: Log| {
        let teller = log.topics().first().copied().unwrap_or_default();
        (Address::from_word(teller), log.data.data)
    };
    logs.extract_if(.., |log| log.address == NOTIFY_SCS)
        .map(left)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_taken_out_in_order_and_logs_stay() {
        let log = |address, topics: Vec<Address>, data: &'static [u8]| Log {
            address,
            data: LogData::new_unchecked(
                topics.into_iter().map(|topic| topic.into_word()).collect(),
                Bytes::from_static(data),
            ),
        };
        let (one, two) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let mut logs = vec![
            log(NOTIFY_SCS, vec![two], b"first"),
            log(one, vec![NOTIFY_SCS], b"a log"),
            log(NOTIFY_SCS, vec![one], b""),
        ];
        let notices = take_notices(&mut logs);
        assert_eq!(
            notices,
            [(two, Bytes::from_static(b"first")), (one, Bytes::new())]
        );
        assert_eq!(logs, [log(one, vec![NOTIFY_SCS], b"a log")]);
        assert_eq!(take_notices(&mut logs), []);
    }
}
