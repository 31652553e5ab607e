//! The clients of the soak test: requests and transactions for each node, calls on the MicroChain.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use bench::{Failure, receiver};
use e2e::microchain::{MicroChainOwner, OWNER_NONCE, counted, counting, receipt_of};
use e2e::scs::Scs;
use e2e::{Caller, quantity, to_quantity};
use serde_json::json;

use crate::stage::Stage;

/// Time between two calls on the MicroChain.
const CALL_INTERVAL: Duration = Duration::from_secs(1);
/// Blocks whose logs are asked for, so that a question costs the same in each hour.
const LOGS_BLOCKS: u128 = 128;
/// Accounts that get coins.
const RECEIVERS: u64 = 5000;
/// The first account of a node that sends transfers. Those before it are paid for blocks, and own
/// the MicroChain.
const FIRST_SENDER: usize = 2;

/// See the module.
pub(crate) struct Load<'a> {
    stage: &'a Stage,
    owner: &'a MicroChainOwner<'a>,
    chain: &'a str,
    counter: &'a str,
    /// Ends the clients.
    pub(crate) done: AtomicBool,
    /// Milliseconds of each request since the last look.
    times: Mutex<Vec<f64>>,
    /// Transactions since the last look.
    sent: AtomicU64,
    /// Hashes of the calls on the MicroChain.
    calls: Mutex<Vec<String>>,
}

type Client<'scope> = ScopedJoinHandle<'scope, Result<(), Failure>>;

impl<'a> Load<'a> {
    pub(crate) fn new(
        stage: &'a Stage,
        owner: &'a MicroChainOwner<'a>,
        chain: &'a str,
        counter: &'a str,
    ) -> Self {
        Self {
            stage,
            owner,
            chain,
            counter,
            done: AtomicBool::new(false),
            times: Mutex::default(),
            sent: AtomicU64::new(0),
            calls: Mutex::default(),
        }
    }

    /// Starts all clients, with so many requests and transactions a second for each node.
    pub(crate) fn start<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        requests: u32,
        transactions: u32,
    ) -> Vec<Client<'scope>> {
        let [request_pause, transaction_pause] =
            [requests, transactions].map(|rate| Duration::from_secs(1) / rate);
        let mut clients = vec![scope.spawn(|| self.call())];
        for (index, caller) in self.stage.callers().into_iter().enumerate() {
            clients.push(scope.spawn(move || self.ask(&caller, request_pause)));
            let sender = Caller::new(self.stage.nodes[index].addresses()[0]);
            clients.push(scope.spawn(move || self.send(&sender, FIRST_SENDER + index, transaction_pause)));
        }
        clients
    }

    /// Does `act` again and again, at a pace.
    fn repeat(
        &self,
        pause: Duration,
        mut act: impl FnMut(u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut next = Instant::now();
        let mut count = 0;
        while !self.done.load(Ordering::Relaxed) {
            act(count)?;
            count += 1;
            // A client that is late does not hurry afterwards.
            next = Instant::now().max(next + pause);
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        Ok(())
    }

    /// Asks for balances, blocks, logs, nonces, the pool and new blocks, in turn.
    fn ask(&self, caller: &Caller, pause: Duration) -> Result<(), Failure> {
        let filter = caller.rpc("mc_newBlockFilter", json!([]));
        let mut head = 0;
        self.repeat(pause, |count| {
            let account = format!("{:#x}", receiver(count % RECEIVERS));
            let (method, params) = match count % 6 {
                0 => ("mc_getBalance", json!([account, "latest"])),
                1 => ("mc_getBlockByNumber", json!(["latest", true])),
                2 => {
                    let from = to_quantity(u128::saturating_sub(head, LOGS_BLOCKS));
                    (
                        "mc_getLogs",
                        json!([{"fromBlock": from, "toBlock": "latest", "address": account}]),
                    )
                }
                3 => ("mc_getTransactionCount", json!([account, "pending"])),
                4 => ("txpool_status", json!([])),
                _ => ("mc_getFilterChanges", json!([filter])),
            };
            let begun = Instant::now();
            let answer = caller.rpc(method, params);
            let time = begun.elapsed().as_secs_f64() * 1e3;
            if method == "mc_getBlockByNumber" {
                head = quantity(&answer["number"]);
            }
            self.times
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(time);
            Ok(())
        })
    }

    /// Sends transfers from an account of the node.
    fn send(&self, caller: &Caller, account: usize, pause: Duration) -> Result<(), Failure> {
        let from = caller.accounts()[account].clone();
        self.repeat(pause, |count| {
            let to = format!("{:#x}", receiver((count * 7 + account as u64) % RECEIVERS));
            caller.send(json!({"from": from, "to": to, "value": "0x1", "gas": to_quantity(21_000)}));
            self.sent.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Counts on the MicroChain.
    fn call(&self) -> Result<(), Failure> {
        let input = counting(self.counter, 1);
        self.repeat(CALL_INTERVAL, |count| {
            let hash = self
                .owner
                .send_to_chain(self.chain, OWNER_NONCE + count, 1, 0, &input);
            self.calls
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(hash);
            Ok(())
        })
    }

    /// The number of transactions since the last look, and the times of the requests.
    pub(crate) fn take(&self) -> (u64, Vec<f64>) {
        let times = std::mem::take(&mut *self.times.lock().unwrap_or_else(PoisonError::into_inner));
        (self.sent.swap(0, Ordering::Relaxed), times)
    }

    /// Waits until the MicroChain has executed all calls. Returns their number.
    pub(crate) fn finish(&self, server: &Scs) -> Result<usize, Failure> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = calls.last() {
            receipt_of(server, self.chain, last);
        }
        match counted(server, self.chain, self.counter) {
            total if total == calls.len() as u128 => Ok(calls.len()),
            total => Err(format!("the counter: got {total}, expected {}", calls.len()).into()),
        }
    }
}
