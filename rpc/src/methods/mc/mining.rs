//! Work for miners, and what is known of their speed (interface 4.4, 4.6).
//!
//! Every miner is a client of the chain's work desk, which hands out work and takes solutions.

use std::sync::Arc;
use std::time::Duration;

use chain::chain::WriteError;
use chain::mining::desk::SolutionError;
use chain::rules::body::SealCheckError;
use ethash::{Solution, WorkPackage};
use primitives::{Address, B64, B256, U256};
use tokio::time::{Instant, sleep};

use super::request::Word;
use crate::error::{RpcError, RpcResult, failure};
use crate::node::Node;
use crate::params::Params;
use crate::table::{Method, Waiting, reply};
use crate::types::{Data, Quantity};

/// How long `mc_getWork` waits for work: longer than any chain of ours waits after a block before
/// the next one may begin.
const WORK_PATIENCE: Duration = Duration::from_secs(2);
/// How often it looks meanwhile.
const WORK_LOOK: Duration = Duration::from_millis(20);

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::inline("mc_coinbase", |node, params| {
            reply(params.parse().and_then(|()| coinbase(node)))
        })
        .says("-> DATA20", "Who is paid for blocks made here."),
        Method::inline("mc_mining", |node: &Node, params| {
            reply(params.parse().map(|()| node.chain.desk().mining()))
        })
        .says("-> Boolean", "Whether this node mines."),
        Method::inline("mc_hashrate", |node, params| {
            reply(params.parse().map(|()| hashrate(node)))
        })
        .says(
            "-> QUANTITY",
            "Hashes per second, of this process and of miners who reported theirs.",
        ),
        Method::inline("mc_submitHashrate", |node, params| {
            reply(params.parse().map(|given| submit_hashrate(node, given)))
        })
        .says(
            "rate: WORD, id: DATA32 -> Boolean",
            "Takes a miner's word on its speed; it counts for ten seconds.",
        ),
        Method::waiting("mc_getWork", |node, params| get_work(node, params)).says(
            "-> DATA32[]",
            "Work for a miner: the header's pow-hash, the seed hash, the boundary.",
        ),
        Method::blocking("mc_submitWork", |node, params| {
            reply(params.parse().and_then(|given| submit_work(node, given)))
        })
        .says(
            "nonce: DATA8, powHash: DATA32, mixDigest: DATA32 -> Boolean",
            "Takes a solution: true if it is valid and the first for its work.",
        ),
    ]
}

/// `mc_coinbase`: who is paid for blocks made here.
fn coinbase(node: &Node) -> RpcResult<Data<Address>> {
    node.beneficiary().map(Data)
}

/// `mc_hashrate`: of this process, and of those who reported theirs lately.
fn hashrate(node: &Node) -> Quantity<U256> {
    Quantity(total_hashrate(node))
}

/// Hashes per second, of this process and of others' reports.
pub(in crate::methods) fn total_hashrate(node: &Node) -> U256 {
    // The cast makes nothing of what is no number, and the most of what is too large.
    let own = node.miner.hashrate() as u64;
    node.chain
        .desk()
        .reported_hashrate()
        .saturating_add(U256::from(own))
}

/// `mc_submitHashrate`: a miner's own word on its speed, under an id of its choice.
fn submit_hashrate(node: &Node, (Word(rate), id): (Word, B256)) -> bool {
    node.chain.desk().report_hashrate(rate, id);
    true
}

/// `mc_getWork`: header hash, seed hash, boundary.
fn get_work(node: Arc<Node>, params: Params<'_>) -> Waiting {
    let parsed = params.parse::<()>();
    Box::pin(async move {
        parsed?;
        node.beneficiary()?;
        let deadline = Instant::now() + WORK_PATIENCE;
        loop {
            if let Some(work) = node.chain.desk().work() {
                return reply(Ok(work_triple(&work)));
            }
            if Instant::now() >= deadline {
                return Err(RpcError::refused(format!(
                    "mining not ready: no work after {} s",
                    WORK_PATIENCE.as_secs()
                )));
            }
            sleep(WORK_LOOK).await;
        }
    })
}

fn work_triple(work: &WorkPackage) -> [Data<B256>; 3] {
    [Data(work.header_hash), Data(work.seed_hash), Data(work.boundary)]
}

/// `mc_submitWork`: whether the solution is valid and the first for its work.
fn submit_work(node: &Node, (pow_nonce, header_hash, mix_hash): (B64, B256, B256)) -> RpcResult<bool> {
    let solution = Solution {
        header_hash,
        pow_nonce: u64::from_be_bytes(pow_nonce.0),
        mix_hash,
    };
    match node.chain.submit_solution(&solution) {
        Ok(_) => Ok(true),
        Err(WriteError::Solution(SolutionError::Seal(SealCheckError::Cache(error)))) => Err(failure(error)),
        Err(WriteError::Solution(reason)) => {
            tracing::debug!(%reason, "a solution was not accepted");
            Ok(false)
        }
        // The chain's log says why. To the miner a refused block is a solution that gives none;
        // a good one that cannot be kept is the node's fault.
        Err(WriteError::Import(error)) if error.store_error().is_some() => {
            Err(RpcError::internal("the node could not store the block"))
        }
        Err(WriteError::Import(_)) => Ok(false),
        Err(error @ (WriteError::Stopping | WriteError::Failed(_) | WriteError::AboveHead { .. })) => {
            Err(RpcError::refused(error.to_string()))
        }
    }
}
