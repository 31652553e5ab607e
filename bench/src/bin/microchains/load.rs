//! Calls of a Dapp, sent to the node, and a watcher that sees them in the blocks of an SCS.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bench::{Failure, sender_key};
use e2e::http::TestHttpClient;
use e2e::microchain::{COIN, MicroChainOwner, OWNER_NONCE, PROXY, RATE, counted, counting, works};
use e2e::wait::wait_within;
use e2e::{Caller, quantity};
use primitives::{Address, SecretKey, TxForm, UnsignedTransaction, hex};
use serde_json::{Value, json};

use crate::stage::{CHAIN_ID, Stage};

/// Accounts that send.
const SENDERS: usize = 256;
/// Coins that are changed into tokens for the accounts.
const DEPOSIT: u128 = COIN;
/// Longest wait for the deposit, which some twenty blocks of the base chain must follow.
const DEPOSIT_WAIT: Duration = Duration::from_secs(240);
/// The time in which each account sends its first transaction.
pub(crate) const WARM_UP: Duration = Duration::from_secs(4);
/// So many a second in that time.
pub(crate) const WARM_UP_PACE: Pace = Pace::Rate(SENDERS as u64 / WARM_UP.as_secs());
/// Gas of a call of the counter, if it is not the first one of its account. The block rule does not
/// come over the wire, so the tests of `microchain` keep this figure true.
pub(crate) const CALL_GAS: u64 = 14_051;
/// Transactions in a request.
pub(crate) const BATCH: usize = 50;
/// Pause between two looks at the chain.
const LOOK: Duration = Duration::from_millis(10);
/// Pause of a sender that may not send more.
const PAUSE: Duration = Duration::from_millis(2);
/// The time for which the last transactions are waited for.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// The measured figures.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// Transactions a second that came into blocks.
    pub(crate) rate: f64,
    pub(crate) per_block: f64,
    /// Seconds from sending to receipt: half of the transactions were faster.
    pub(crate) median: f64,
    /// 99 of 100 were faster.
    pub(crate) slowest: f64,
    pub(crate) refused: usize,
    /// Transactions that were in no block when the measurement ended.
    pub(crate) missing: usize,
}

/// The pace at which transactions are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// So many a second.
    Rate(u64),
    /// As many as come into blocks.
    AsMany {
        /// The most that are in no block.
        in_flight: usize,
        /// The most that a block can have.
        per_block: usize,
    },
}

/// Transactions in blocks, with the time at which they were seen.
#[derive(Debug, Default)]
struct Seen {
    at: HashMap<String, Instant>,
    blocks: Vec<(Instant, usize)>,
}

/// Sends to one MicroChain.
pub(crate) struct Load<'a> {
    stage: &'a Stage,
    chain: Address,
    counter: String,
    /// Address and calldata of the call.
    input: Vec<u8>,
    keys: Vec<SecretKey>,
    next_nonce: Mutex<Vec<u64>>,
}

impl<'a> Load<'a> {
    /// Calls of the counter at this address.
    pub(crate) fn new(stage: &'a Stage, chain: &str, counter: &str) -> Result<Self, Failure> {
        let keys = (0..SENDERS as u64).map(sender_key);
        Ok(Self {
            stage,
            chain: chain.parse()?,
            counter: counter.to_owned(),
            input: hex::decode(counting(counter, 1))?,
            keys: keys.collect::<Result<_, _>>()?,
            next_nonce: Mutex::new(vec![0; SENDERS]),
        })
    }

    /// Gives each account a token. Accounts without tokens have half of an SCS's places together,
    /// which is little more than a full block.
    pub(crate) fn give_tokens(&self, owner: &MicroChainOwner<'_>) {
        let (chain, server) = (format!("{:#x}", self.chain), &self.stage.scs[0]);
        // buyMintToken
        owner.transact(&chain, "6bbded70", &[], DEPOSIT);
        wait_within(DEPOSIT_WAIT, "the deposit", || {
            let balance = server.rpc("scs_getBalance", json!([chain, owner.address()]));
            (quantity(&balance) >= DEPOSIT * RATE).then_some(())
        });
        let sent = self.keys.iter().zip(OWNER_NONCE..).map(|(key, nonce)| {
            let receiver = format!("{:#x}", key.address());
            owner.send_to_chain(&chain, nonce, 2, COIN, &receiver)
        });
        if let Some(last) = sent.last() {
            works(server, &chain, &last);
        }
    }

    /// The next transaction of a sender.
    fn sign(&self, sender: usize) -> Result<SignedCall, Failure> {
        let mut nonces = self.next_nonce.lock().map_err(|error| error.to_string())?;
        let signed = sign_call(&self.keys[sender], self.chain, nonces[sender], &self.input);
        nonces[sender] += 1;
        signed
    }

    /// Sends for `time`.
    pub(crate) fn run(&self, time: Duration, pace: Pace) -> Result<Sample, Failure> {
        // Signing is not part of the measurement.
        let wanted = match pace {
            Pace::Rate(rate) => (rate * time.as_secs()) as usize,
            Pace::AsMany { in_flight, per_block } => {
                let blocks = time.as_secs() / self.stage.period + 2;
                in_flight + per_block * blocks as usize
            }
        };
        let ready: Result<Vec<_>, _> = (0..wanted).map(|index| self.sign(index % SENDERS)).collect();
        let before = self.total();
        let mut ready = ready?.into_iter();
        let seen = Mutex::new(Seen::default());
        let (mined, done) = (AtomicUsize::new(0), AtomicBool::new(false));
        let mut sent: Vec<(String, Instant)> = Vec::new();
        let mut refused = 0;
        let started = Instant::now();
        std::thread::scope(|scope| -> Result<(), Failure> {
            let watcher = scope.spawn(|| self.watch(&seen, &mined, &done));
            let mut http = TestHttpClient::new(self.stage.node.addresses()[0]);
            let finished = (|| -> Result<(), Failure> {
                while started.elapsed() < time {
                    let allowed = match pace {
                        Pace::Rate(rate) => (rate as f64 * started.elapsed().as_secs_f64()) as usize,
                        Pace::AsMany { in_flight, .. } => mined.load(Ordering::Relaxed) + refused + in_flight,
                    };
                    let count = allowed.saturating_sub(sent.len()).min(BATCH);
                    if count > ready.len() && matches!(pace, Pace::AsMany { .. }) {
                        return Err(
                            format!("{wanted} transactions are signed, and more could be sent").into(),
                        );
                    }
                    let batch: Vec<_> = ready.by_ref().take(count).collect();
                    if batch.is_empty() {
                        std::thread::sleep(PAUSE);
                        continue;
                    }
                    refused += post(&mut http, &batch)?;
                    let now = Instant::now();
                    sent.extend(batch.into_iter().map(|(_, hash)| (hash, now)));
                }
                let last = Instant::now();
                while mined.load(Ordering::Relaxed) + refused < sent.len() && last.elapsed() < LAST_WAIT {
                    std::thread::sleep(LOOK);
                }
                Ok(())
            })();
            done.store(true, Ordering::Relaxed);
            watcher.join().map_err(|_| "the watcher failed")??;
            finished
        })?;
        self.give_back(wanted, ready.len());
        let seen = seen.into_inner().map_err(|error| error.to_string())?;
        // A transaction that fails is in a block, too, and costs little. It must not count.
        let is_seen = |(hash, _): &&(String, Instant)| seen.at.contains_key(hash);
        let (got, expected) = (self.total() - before, sent.iter().filter(is_seen).count());
        if got < expected as u128 {
            return Err(format!("the counter: got {got} more, expected at least {expected}").into());
        }
        Ok(sample(&sent, &seen, refused, started, time))
    }

    /// The last `unsent` of `signed` transactions were not sent: their nonces are free again.
    fn give_back(&self, signed: usize, unsent: usize) {
        if let Ok(mut nonces) = self.next_nonce.lock() {
            for index in signed - unsent..signed {
                nonces[index % SENDERS] -= 1;
            }
        }
    }

    /// The count of the Dapp at the head of the watched SCS.
    fn total(&self) -> u128 {
        counted(&self.stage.scs[0], &format!("{:#x}", self.chain), &self.counter)
    }

    /// Notes the transactions of each new block.
    fn watch(&self, seen: &Mutex<Seen>, mined: &AtomicUsize, done: &AtomicBool) -> Result<(), Failure> {
        let address = self.stage.scs[0].url();
        let address = address.trim_start_matches("http://").parse();
        let caller = Caller::new(address.map_err(|error| format!("{error}"))?);
        let chain = format!("{:#x}", self.chain);
        let head = || quantity(&caller.rpc("scs_getBlockNumber", json!([chain])));
        let mut next = head() + 1;
        while !done.load(Ordering::Relaxed) {
            while head() >= next {
                let block = caller.rpc("scs_getBlock", json!([chain, next as u64]));
                let now = Instant::now();
                let hashes = block["transactions"].as_array().cloned().unwrap_or_default();
                let mut seen = seen.lock().map_err(|error| error.to_string())?;
                seen.blocks.push((now, hashes.len()));
                for hash in hashes.iter().filter_map(Value::as_str) {
                    seen.at.entry(hash.to_owned()).or_insert(now);
                }
                mined.store(seen.at.len(), Ordering::Relaxed);
                next += 1;
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// A signed transaction as hexadecimal digits, and its hash.
pub(crate) type SignedCall = (String, String);

/// A call of a Dapp: `input` begins with its address.
pub(crate) fn sign_call(
    key: &SecretKey,
    chain: Address,
    tx_nonce: u64,
    input: &[u8],
) -> Result<SignedCall, Failure> {
    let unsigned = UnsignedTransaction {
        tx_nonce,
        to: Some(chain),
        input: input.to_vec().into(),
        sharding_flag: 1,
        via: Some(PROXY.parse()?),
        ..UnsignedTransaction::default()
    };
    let signed = unsigned.sign(key, CHAIN_ID, TxForm::Native);
    let hash = format!("{:#x}", signed.hash());
    Ok((format!("0x{}", hex::encode(signed.encode_raw())), hash))
}

/// Sends transactions in one request. Returns how many were refused.
pub(crate) fn post(http: &mut TestHttpClient, batch: &[SignedCall]) -> Result<usize, Failure> {
    let call = |(id, (raw, _)): (usize, &SignedCall)| json!({"jsonrpc": "2.0", "id": id, "method": "mc_sendRawTransaction", "params": [raw]});
    let calls: Vec<_> = batch.iter().enumerate().map(call).collect();
    let answer = http.post(&Value::Array(calls).to_string())?;
    let answers: Vec<Value> = serde_json::from_str(&answer.body)?;
    let refused = answers.iter().filter(|answer| !answer["error"].is_null());
    if let Some(first) = refused.clone().next() {
        eprintln!("refused: {}", first["error"]);
    }
    Ok(refused.count())
}

fn sample(
    sent: &[(String, Instant)],
    seen: &Seen,
    refused: usize,
    started: Instant,
    time: Duration,
) -> Sample {
    let mut latencies: Vec<f64> = sent
        .iter()
        .filter_map(|(hash, at)| Some(seen.at.get(hash)?.saturating_duration_since(*at).as_secs_f64()))
        .collect();
    latencies.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| {
        let index = (latencies.len() as f64 * share) as usize;
        latencies.get(index).copied().unwrap_or(f64::NAN)
    };
    // From the first block with transactions to the last one before sending ended.
    let end = started + time;
    let full: Vec<_> = seen
        .blocks
        .iter()
        .filter(|(at, count)| *at <= end && *count > 0)
        .collect();
    let (mut rate, mut per_block) = (f64::NAN, f64::NAN);
    if let [(first, _), rest @ ..] = full.as_slice()
        && let Some((last, _)) = rest.last()
    {
        let count = rest.iter().map(|(_, count)| count).sum::<usize>() as f64;
        rate = count / last.saturating_duration_since(*first).as_secs_f64();
        per_block = count / rest.len() as f64;
    }
    Sample {
        rate,
        per_block,
        median: at(0.5),
        slowest: at(0.99),
        refused,
        missing: sent.len() - refused.min(sent.len()) - latencies.len(),
    }
}
