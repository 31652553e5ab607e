//! Work for miners, and their hash rates (docs/interface.md, 4.4; docs/interface.md, 4.6).
//!
//! Every miner is a client of the chain's [`WorkManager`](chain::mining::work::WorkManager), which
//! gives out work and accepts solutions.

use std::sync::Arc;
use std::time::Duration;

use chain::chain::WriteError;
use chain::import::Imported;
use chain::mining::work::SolutionError;
use chain::rules::seal::SealCheckError;
use ethash::Solution;
use primitives::{Address, B64, B256, U256};
use tokio::time::{Instant, sleep};

use super::request::Word;
use crate::error::{RpcError, RpcResult, failure_of};
use crate::modules::NameStyle;
use crate::node::Node;
use crate::objects::{WorkValue, work_values};
use crate::table::Method;
use crate::types::{Data, Quantity};

/// The time that `mc_getWork` waits for work. After a block, our chains have no work for the next
/// block for a short time. This wait is longer.
const WORK_TIMEOUT: Duration = Duration::from_secs(2);
/// The time between two requests of `mc_getWork` to the work manager while it waits.
const WORK_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::inline("mc_coinbase", [], coinbase)
            .summary("Returns the address that receives the rewards for the blocks of this node."),
        Method::inline("mc_mining", [], is_mining).summary("Returns whether this node mines."),
        Method::inline("mc_hashrate", [], hashrate).summary(
            "Returns the hashes per second of this process and of the miners that reported their \
             rates.",
        ),
        Method::inline("mc_submitHashrate", ["rate", "id"], submit_hashrate)
            .summary("Reports the hash rate of a miner. The report counts for ten seconds."),
        Method::waiting("mc_getWork", [], get_work)
            .summary(
            "Returns work for a miner: header hash, seed hash and boundary. Under `eth_getWork` the number of the \
             block follows.",
        ),
        Method::blocking("mc_submitWork", ["nonce", "powHash", "mixDigest"], submit_work).summary(
            "Submits a solution. Returns true if the solution is valid and is the first for its \
             work. An error says that the node could not store the block; it keeps the block and tries again.",
        ),
    ]
}

/// `mc_coinbase`: the address that is paid for the blocks of this node. On the development network
/// nobody may be paid. Under the Ethereum name that is the zero address, as tools expect.
fn coinbase(node: &Node, (): (), name_style: NameStyle) -> RpcResult<Data<Address>> {
    match (&node.developer, name_style) {
        (Some(_), NameStyle::Ethereum) => Ok(Data(node.chain.settings().beneficiary)),
        _ => node.beneficiary().map(Data),
    }
}

/// `mc_mining`.
fn is_mining(node: &Node) -> RpcResult<bool> {
    Ok(node.chain.work().mining())
}

/// `mc_hashrate`.
fn hashrate(node: &Node) -> RpcResult<Quantity<U256>> {
    Ok(Quantity(total_hashrate(node)))
}

/// Hashes per second of this process and of the miners that reported their rate recently.
pub(in crate::methods) fn total_hashrate(node: &Node) -> U256 {
    // In the cast a NaN rate becomes 0, and a rate that is too large becomes the highest number.
    let own = node.miner.hashrate() as u64;
    node.chain
        .work()
        .reported_hashrate()
        .saturating_add(U256::from(own))
}

/// `mc_submitHashrate`: a miner reports its hash rate under an id that it has chosen.
fn submit_hashrate(node: &Node, (Word(rate), id): (Word, B256)) -> RpcResult<bool> {
    node.chain.work().report_hashrate(rate, id);
    Ok(true)
}

/// `mc_getWork`: see [`work_values`]. Waits a short time if there is no work yet.
async fn get_work(node: Arc<Node>, (): (), name_style: NameStyle) -> RpcResult<Vec<WorkValue>> {
    node.beneficiary()?;
    let deadline = Instant::now() + WORK_TIMEOUT;
    loop {
        if let Some(work) = node.chain.work().current() {
            return Ok(work_values(&work, name_style));
        }
        if let Some(reason) = node.chain.work_pause() {
            return Err(RpcError::refused(format!("mining not ready: {reason}")));
        }
        if Instant::now() >= deadline {
            return Err(RpcError::refused(format!(
                "mining not ready: no work after {} s",
                WORK_TIMEOUT.as_secs()
            )));
        }
        sleep(WORK_POLL_INTERVAL).await;
    }
}

/// `mc_submitWork`: whether the solution is valid and the first for its work.
fn submit_work(node: &Node, (pow_nonce, header_hash, mix_hash): (B64, B256, B256)) -> RpcResult<bool> {
    let solution = Solution {
        header_hash,
        pow_nonce: u64::from_be_bytes(pow_nonce.0),
        mix_hash,
    };
    answer(node.chain.submit_solution(&solution))
}

/// The answer to a solution for which this is the chain's result.
fn answer(result: Result<Imported, WriteError>) -> RpcResult<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(WriteError::Solution(SolutionError::Seal(SealCheckError::Cache(error)))) => {
            Err(failure_of("the node could not build the light cache", error))
        }
        Err(WriteError::Solution(reason)) => {
            tracing::debug!(%reason, "a solution was not accepted");
            Ok(false)
        }
        // The chain's log has the reason. A block that breaks a rule makes the solution wrong. A
        // good block that cannot be imported is a failure of the node.
        Err(WriteError::Import(error)) if error.is_invalid_block() => Ok(false),
        Err(WriteError::Import(_)) => Err(RpcError::internal(
            "the node could not store the block; the same solution may be submitted again",
        )),
        Err(
            error @ (WriteError::Stopping
            | WriteError::Failed(_)
            | WriteError::AboveHead { .. }
            | WriteError::Early(_)),
        ) => Err(RpcError::refused_by(error)),
    }
}

#[cfg(test)]
mod tests {
    use chain::import::ImportError;
    use ethash::CacheError;
    use store::StoreError;

    use super::*;

    /// The answer; an error as its code and its text.
    fn check(result: WriteError, expected: Result<bool, (i32, &str)>) {
        let text = result.to_string();
        let got = answer(Err(result));
        let got = got
            .as_ref()
            .map_err(|error| (error.code(), error.message()))
            .copied();
        assert_eq!(got, expected, "{text}");
    }

    #[test]
    fn only_a_wrong_solution_is_answered_with_false() {
        let unstored = "the node could not store the block; the same solution may be submitted again";
        let full = StoreError::Full {
            path: "of the test".into(),
            source: std::io::ErrorKind::StorageFull.into(),
        };
        check(WriteError::Solution(SolutionError::Solved(B256::ZERO)), Ok(false));
        let root = ImportError::StateRoot {
            got: B256::ZERO,
            expected: B256::ZERO,
        };
        check(root.into(), Ok(false));
        check(ImportError::Store(full).into(), Err((-32603, unstored)));
        check(
            ImportError::Panicked("of the test".into()).into(),
            Err((-32603, unstored)),
        );
        check(
            SolutionError::Seal(CacheError::Cancelled.into()).into(),
            Err((-32603, "the node could not build the light cache")),
        );
        check(
            WriteError::Failed("of the test".into()),
            Err((-32000, "no more blocks can be taken: of the test")),
        );
    }
}
