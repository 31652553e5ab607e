//! The texts of errors under Ethereum's names of methods.
//!
//! Clients recognize some errors by their texts. The node's own texts are those of the public
//! network's node, which differ in places from geth's. Under Ethereum's names an error has geth's
//! text, with the same details behind it.

/// The begin of a text of this node, and geth's begin of the same text.
const TEXTS: [(&str, &str); 17] = [
    ("evm: execution reverted", "execution reverted"),
    ("known transaction: ", "already known: "),
    (
        "insufficient funds for gasRemaining * price + value",
        "insufficient funds for gas * price + value",
    ),
    ("intrinsic gasRemaining too low", "intrinsic gas too low"),
    ("exceeds block gasRemaining limit", "exceeds block gas limit"),
    (
        "got a transaction of type ",
        "transaction type not supported: got a transaction of type ",
    ),
    ("code that creates a contract: ", "max initcode size exceeded: "),
    ("Invalid opcode", "invalid opcode"),
    ("evm: InvalidJump", "invalid jump destination"),
    ("evm: StackUnderflow", "stack underflow"),
    ("evm: StackOverflow", "stack limit reached"),
    ("evm: StateChangeDuringStaticCall", "write protection"),
    ("evm: OutOfOffset", "return data out of bounds"),
    ("evm: OutOfFunds", "insufficient balance for transfer"),
    ("evm: CallTooDeep", "max call depth exceeded"),
    ("evm: CreateContractSizeLimit", "max code size exceeded"),
    (
        "evm: CreateContractStartingWithEF",
        "invalid code: must not begin with 0xef",
    ),
];

/// A part of the text about a block above the head.
const ABOVE_HEAD: &str = " is above the head block ";

/// The text of an error under Ethereum's names; `None` if it is the same.
pub(crate) fn ethereum_text(native: &str) -> Option<String> {
    if native.starts_with("block ") && native.contains(ABOVE_HEAD) {
        return Some(format!("header not found: {native}"));
    }
    TEXTS
        .iter()
        .find_map(|(own, ethereum)| Some(format!("{ethereum}{}", native.strip_prefix(own)?)))
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{B256, U256};
    use chain::pool::PoolError;

    use crate::error::RpcError;
    use crate::modules::NameStyle;

    /// The texts by which viem (`errors/node.ts`), ethers (`provider-jsonrpc.js`) and web3.py
    /// recognize an error, in lower case, beside an error of this node.
    #[test]
    fn clients_recognize_the_errors() {
        let (one, two) = (U256::from(1), U256::from(2));
        let pool: [(PoolError, &str); 8] = [
            (PoolError::Known(B256::ZERO), "already known"),
            (PoolError::NonceTooLow { got: 1, expected: 2 }, "nonce too low"),
            (PoolError::NonceMax(u64::MAX), "nonce has max value"),
            (
                PoolError::ReplacementUnderpriced {
                    got: one,
                    expected: two,
                },
                "replacement transaction underpriced",
            ),
            (
                PoolError::Funds {
                    balance: one,
                    cost: two,
                },
                "insufficient funds for gas * price + value",
            ),
            (
                PoolError::Overdraft {
                    balance: one,
                    cost: two,
                    pending: one,
                },
                "insufficient funds for gas * price + value",
            ),
            (
                PoolError::IntrinsicGas { got: 1, expected: 2 },
                "intrinsic gas too low",
            ),
            (
                PoolError::BlockGas { got: 2, limit: 1 },
                "exceeds block gas limit",
            ),
        ];
        for (error, known) in pool {
            check(&error.to_string(), known);
        }
        check("evm: execution reverted: why", "execution reverted: why");
        check("Invalid opcode: PUSH0 (0x5f)", "invalid opcode: push0");
        check("out of gas", "out of gas");
        check(
            "gas required exceeds allowance (5) or always failing transaction",
            "gas required exceeds allowance",
        );
        check("filter not found", "filter not found");
        check("block 9 is above the head block 5", "header not found");
    }

    fn check(native: &str, known: &str) {
        let error = RpcError::refused(native.to_owned());
        assert_eq!(error.clone().in_style(NameStyle::Native), error);
        let shown = error.in_style(NameStyle::Ethereum);
        assert!(shown.message().to_lowercase().starts_with(known), "{shown}");
        assert!(!shown.message().contains("gasRemaining"), "{shown}");
    }

    #[test]
    fn a_revert_has_code_3_and_its_data() {
        let native = RpcError::reverted("evm: execution reverted: why", &[1, 2]);
        let shown = native.clone().in_style(NameStyle::Ethereum);
        assert_eq!((native.code(), native.data()), (-32000, Some("0x0102")));
        let parts = (shown.code(), shown.message(), shown.data());
        assert_eq!(parts, (3, "execution reverted: why", Some("0x0102")));
    }
}
