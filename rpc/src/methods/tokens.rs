//! The tokens of an account with their balances, by the index by address.

use chain::call::{CallOutcome, CallRequest};
use primitives::{Address, Bytes, U256};
use serde::Serialize;

use crate::budget::query_limit;
use crate::error::{RpcError, RpcResult};
use crate::indexed::IndexedPast;
use crate::methods::mc::at_state;
use crate::node::Node;
use crate::table::Method;
use crate::types::{BlockRef, Data, Quantity};
use crate::wire_type::{Described, WireType};

/// The selector of `balanceOf(address)`.
const BALANCE_OF: [u8; 4] = [0x70, 0xa0, 0x82, 0x31];
/// The selector of `decimals()`.
const DECIMALS: [u8; 4] = [0x31, 0x3c, 0xe5, 0x67];
/// The selector of `symbol()`.
const SYMBOL: [u8; 4] = [0x95, 0xd8, 0x9b, 0x41];
/// The most decimals that are believed.
const DECIMALS_MAX: u64 = 77;
/// The most bytes of a symbol.
const SYMBOL_BYTES_MAX: usize = 32;
/// The most gas of a token's answer.
const BALANCE_GAS: u64 = 500_000;

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::heavy("vnode_tokenBalances", ["address", "block"], token_balances).summary(
            "Returns the tokens that an account ever received, at most 1,000, each with the balance that its \
             contract gives; null if it gives none. Needs --index address.",
        ),
    ]
}

/// A token of an account.
#[derive(Serialize)]
struct TokenBalance {
    token: Data<Address>,
    /// `null` if the contract does not answer as tokens do.
    balance: Option<Quantity<U256>>,
    /// `null` if it has none.
    decimals: Option<Quantity>,
    symbol: Option<String>,
}

impl Described for TokenBalance {
    const TYPE: WireType = WireType::Named("TokenBalance");
}

/// `vnode_tokenBalances`.
fn token_balances(node: &Node, (address, at): (Address, BlockRef)) -> RpcResult<Vec<TokenBalance>> {
    let view = node.view()?;
    let past = IndexedPast::of(node, &view)?
        .ok_or_else(|| RpcError::refused("this node has no index by address: --index address makes it"))?;
    let limit = query_limit(node.settings.call_timeout);
    let ask = |token: Address, input: Vec<u8>| -> RpcResult<Option<Bytes>> {
        limit.check().map_err(RpcError::refused_by)?;
        let request = CallRequest {
            to: Some(token),
            gas_max: Some(BALANCE_GAS.min(node.settings.call_gas_max)),
            input: Bytes::from(input),
            ..CallRequest::default()
        };
        let outcome = at_state(node, &view, at, |place| view.call(place, &request, limit.clone()))?;
        Ok(match outcome {
            CallOutcome::Success { output, .. } => Some(output),
            _ => None,
        })
    };
    let describe = |token: Address| -> RpcResult<TokenBalance> {
        let own = [BALANCE_OF.as_slice(), &[0; 12], address.as_slice()].concat();
        let decimals: Option<u64> =
            ask(token, DECIMALS.to_vec())?.and_then(|output| word(&output)?.try_into().ok());
        Ok(TokenBalance {
            token: Data(token),
            balance: ask(token, own)?.and_then(|output| word(&output)).map(Quantity),
            decimals: decimals
                .filter(|decimals| *decimals <= DECIMALS_MAX)
                .map(Quantity),
            symbol: ask(token, SYMBOL.to_vec())?.and_then(|output| symbol(&output)),
        })
    };
    past.tokens(&address)?.into_iter().map(describe).collect()
}

fn word(output: &[u8]) -> Option<U256> {
    (output.len() == 32).then(|| U256::from_be_slice(output))
}

/// The text of a symbol: a string of the ABI, or the `bytes32` of some old tokens.
fn symbol(output: &[u8]) -> Option<String> {
    let bytes = match output.split_at_checked(64) {
        None => output.get(..32)?,
        Some((head, text)) => text.get(..usize::try_from(word(&head[32..])?).ok()?)?,
    };
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = std::str::from_utf8(bytes.get(..bytes.len().min(SYMBOL_BYTES_MAX))?).ok()?;
    let is_shown = !text.is_empty() && !text.chars().any(char::is_control);
    is_shown.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_strings_or_words() {
        let word = |number: u64| U256::from(number).to_be_bytes::<32>().to_vec();
        let padded = |text: &[u8]| [text, &[0; 32][text.len()..]].concat();
        let string = |length, text: &[u8]| [word(32), word(length), padded(text)].concat();
        for (output, expected) in [
            (string(3, b"DAI"), Some("DAI")),
            (padded(b"MKR"), Some("MKR")),
            (string(0, b""), None),
            (string(3, b"a\nb"), None),
            (string(2, b"\xff\xff"), None),
            (string(99, b"DAI"), None),
            (string(u64::MAX, b"DAI"), None),
            (word(7)[..31].to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(symbol(&output).as_deref(), expected, "{output:?}");
        }
    }
}
