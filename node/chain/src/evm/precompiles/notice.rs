//! The precompiled contract 0x0d, `notifySCS`: a contract sends a notice to application chains.
//!
//! A call costs 2000 gas, returns the word 1 whether or not this node relays anything, and emits a
//! notice: the caller and the input. On chains that have a list of contracts that may send notices,
//! a call by any other contract costs the same, returns 0 and emits nothing; the handler asks the
//! list after this contract ran.
//!
//! A notice must be dropped when its frame, a frame above it, or the whole transaction is reverted
//! or fails. A call, an estimate or a trace must emit none. revm's journal handles logs in this
//! way, so a notice is carried as a log of address 0x0d. [`take_notices`] removes these logs from
//! the result, before receipts and blooms are made. No other log has this address: a log has the
//! address of the running code's account, and 0x0d has no code.
//!
//! The caller in a notice is the account whose code makes the call. In a delegate call this differs
//! from the caller that called code would see. With that caller, a contract could send notices in
//! the name of whoever calls it. A static call is charged and returns the word, but emits no
//! notice, since it must not change state.

use primitives::{Address, B256, Bytes, address};
use revm::context_interface::{ContextTr, JournalTr};
use revm::interpreter::{CallInputs, CallScheme};
use revm::primitives::{Log, LogData};

use super::network::{PrecompileOutcome, word};

/// The contract's address.
pub const NOTIFY_SCS: Address = address!("000000000000000000000000000000000000000d");
/// Gas of a call.
const NOTIFY_GAS: u64 = 2000;
/// A call with more input emits no notice. The gas does not grow with the input, so without a limit
/// one block could emit gigabytes. The network's contracts send 68 bytes.
pub const NOTICE_BYTES_MAX: usize = 1024;

/// A notice that a transaction emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EmittedNotice {
    /// The account whose code called 0x0d.
    pub(crate) caller: Address,
    pub(crate) input: Bytes,
}

/// Runs a call of 0x0d. If the gas does not cover the cost, no notice is emitted, and the caller of
/// this function turns the outcome into a failure.
pub(super) fn run<CTX: ContextTr>(
    context: &mut CTX,
    inputs: &CallInputs,
    returns_word: bool,
) -> PrecompileOutcome {
    let paid = inputs.gas_limit >= NOTIFY_GAS;
    if paid && !inputs.is_static && inputs.input.len() <= NOTICE_BYTES_MAX {
        let caller = match inputs.scheme {
            CallScheme::Call | CallScheme::StaticCall => inputs.caller,
            CallScheme::CallCode | CallScheme::DelegateCall => inputs.target_address,
        };
        let input = inputs.input.bytes(context);
        context.journal_mut().log(Log {
            address: NOTIFY_SCS,
            data: LogData::new_unchecked(vec![caller.into_word()], input),
        });
    }
    PrecompileOutcome::Returned {
        cost: NOTIFY_GAS,
        output: if returns_word { word(1) } else { Bytes::new() },
    }
}

/// The input of the list's function `isValid`: the caller, and the hash of its code.
pub(crate) fn list_query(caller: Address, code_hash: B256) -> Bytes {
    const IS_VALID: [u8; 4] = [0x10, 0xa0, 0xc2, 0x74];
    // The caller's address stands at the beginning of its word.
    [&IS_VALID[..], caller.as_slice(), &[0; 12], code_hash.as_slice()]
        .concat()
        .into()
}

/// Whether the list's output says that the caller may send notices: anything but the word 0, so
/// that it may if the list has no code.
pub(crate) fn is_listed(output: &[u8]) -> bool {
    output != [0; 32]
}

/// Changes the outcome of a call of 0x0d to that of a caller that is not on the list. `logs` are
/// those of the transaction so far.
pub(crate) fn withdraw(output: &mut Bytes, logs: &mut Vec<Log>, logs_before: usize) {
    logs.truncate(logs_before);
    if !output.is_empty() {
        *output = word(0);
    }
}

/// Moves the notices out of the logs of a transaction. Both keep their order.
pub(crate) fn take_notices(logs: &mut Vec<Log>) -> Vec<EmittedNotice> {
    let to_notice = |log: Log| {
        let caller = log.topics().first().copied().unwrap_or_default();
        EmittedNotice {
            caller: Address::from_word(caller),
            input: log.data.data,
        }
    };
    logs.extract_if(.., |log| log.address == NOTIFY_SCS)
        .map(to_notice)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_removed_in_order_and_other_logs_stay() {
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
        let notice = |caller, input: &'static [u8]| EmittedNotice {
            caller,
            input: Bytes::from_static(input),
        };
        let notices = take_notices(&mut logs);
        assert_eq!(notices, [notice(two, b"first"), notice(one, b"")]);
        assert_eq!(logs, [log(one, vec![NOTIFY_SCS], b"a log")]);
        assert_eq!(take_notices(&mut logs), []);
    }
}
