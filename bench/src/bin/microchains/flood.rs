//! A flood of calls that burn the gas of whole blocks, from accounts that own nothing.

use bench::{Failure, sender_key};
use e2e::http::TestHttpClient;
use e2e::microchain::{Argument, calldata};
use primitives::{Address, SecretKey, hex, keccak256};
use serde_json::json;

use crate::load::{BATCH, SignedCall, post, sign_call};
use crate::stage::Stage;

/// The number of the first key. The honest accounts have lower ones.
const FIRST_KEY: u64 = 100_000;
/// A getter of DappBase.
const CURRENT_NODE: &str = "curNodeList(uint256)";
/// An index that is in no list: the call uses all its gas.
const NO_INDEX: u128 = u128::MAX;

/// The attackers and their calls.
pub(crate) struct Flood<'a> {
    stage: &'a Stage,
    chain: String,
    keys: Vec<SecretKey>,
    calls: Vec<SignedCall>,
}

impl<'a> Flood<'a> {
    /// Signs `calls` calls of each of `attackers` accounts.
    pub(crate) fn sign(stage: &'a Stage, chain: &str, attackers: u64, calls: u64) -> Result<Self, Failure> {
        let dapps = stage.scs[0].rpc("scs_getDappList", json!([chain]));
        let dapp_base = dapps[0].as_str().ok_or("the MicroChain has no DappBase")?;
        let call = calldata(
            &hex::encode(&keccak256(CURRENT_NODE)[..4]),
            &[Argument::Number(NO_INDEX)],
        );
        let input = hex::decode(format!("{dapp_base}{}", call.trim_start_matches("0x")))?;
        let keys = (FIRST_KEY..FIRST_KEY + attackers).map(sender_key);
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let address: Address = chain.parse()?;
        let all = (0..calls).flat_map(|nonce| keys.iter().map(move |key| (key, nonce)));
        let signed = all.map(|(key, nonce)| sign_call(key, address, nonce, &input));
        Ok(Self {
            stage,
            chain: chain.to_owned(),
            calls: signed.collect::<Result<_, _>>()?,
            keys,
        })
    }

    /// Sends all calls. Returns how many the node took.
    pub(crate) fn send(&self) -> Result<usize, Failure> {
        let mut http = TestHttpClient::new(self.stage.node.addresses()[0]);
        let mut refused = 0;
        for batch in self.calls.chunks(BATCH) {
            refused += post(&mut http, batch)?;
        }
        Ok(self.calls.len() - refused)
    }

    /// The calls that are in blocks, as one SCS has them.
    pub(crate) fn in_blocks(&self) -> Result<u64, Failure> {
        let nonce = |key: &SecretKey| {
            let address = format!("{:#x}", key.address());
            let answer = self.stage.scs[0].rpc("scs_getNonce", json!([self.chain, address]));
            let nonce = answer.as_u64();
            nonce.ok_or_else(|| format!("scs_getNonce: got {answer}, expected a number").into())
        };
        self.keys.iter().map(nonce).sum()
    }
}
