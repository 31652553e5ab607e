//! Two halves of a network that made 200 blocks apart, and meet: over real connections, with
//! JSON-RPC. Seals are not checked, so the blocks cost nothing and need no clock.

use std::ops::Deref;
use std::sync::Arc;

use chain::import::Imported;
use chain::rules::uncle_rewards;
use e2e::call::Caller;
use e2e::wait::wait_for;
use ethash::Solution;
use keystore::AccountManager;
use primitives::{Address, B256, SecretKey, TxForm, U256, UnsignedTransaction};
use rpc::server::TcpServer;
use rpc::server::http::{self, HttpOptions};
use rpc::{ControlError, Limits, MinerControl, Modules, NodeFacts, Rpc, methods};
use serde_json::{Value, json};
use store::Store;
use tokio::runtime::Runtime;

use crate::peers::in_process::InProcess;
use crate::peers::support::runtime;

/// The number of blocks that each half makes alone.
const APART: u64 = 200;
/// One in so many blocks of the half that loses has a transaction.
const TRANSACTION_EVERY: u64 = 10;
/// A contract that logs nothing but its address, whoever calls it: `PUSH1 0, PUSH1 0, LOG0`.
const LOGGER_RUNTIME: [u8; 5] = [0x60, 0, 0x60, 0, 0xa0];
/// The gas price of all transactions here.
const GAS_PRICE: u64 = 20_000_000_000;

struct Facts;

impl NodeFacts for Facts {
    fn client_version(&self) -> &str {
        "half/1"
    }

    fn network_id(&self) -> u64 {
        100
    }

    fn is_listening(&self) -> bool {
        true
    }

    fn peer_count(&self) -> u64 {
        0
    }
}

/// The tests make the blocks.
struct NoMiner;

impl MinerControl for NoMiner {
    fn hashrate(&self) -> f64 {
        0.0
    }

    fn start(&self, _: Option<usize>) -> Result<(), ControlError> {
        Err("there is no miner".into())
    }

    fn stop(&self) {}
}

/// A node of one half, with JSON-RPC.
struct Half {
    node: InProcess,
    caller: Caller,
    _server: TcpServer,
}

impl Deref for Half {
    type Target = InProcess;

    fn deref(&self) -> &InProcess {
        &self.node
    }
}

impl Half {
    fn start(runtime: &Runtime, mark: u8) -> Self {
        let node = InProcess::start(runtime, mark, Store::in_memory().expect("a store in memory"));
        let context = rpc::Node::new(
            node.chain.clone(),
            AccountManager::new(),
            Box::new(Facts),
            Arc::new(NoMiner),
        );
        let rpc = Rpc::new(
            Arc::new(context.expect("a thread")),
            methods::all(),
            Limits::default(),
        );
        let dispatcher = Arc::new(rpc.expect("valid rows").dispatcher(&Modules::all()));
        let options = HttpOptions {
            host: "127.0.0.1".to_owned(),
            port: 0,
            ..HttpOptions::default()
        };
        let server = runtime
            .block_on(http::start(dispatcher, &options))
            .expect("a free port");
        Self {
            node,
            caller: Caller::new(server.addresses()[0]),
            _server: server,
        }
    }

    fn rpc(&self, method: &str, params: Value) -> Value {
        self.caller.rpc(method, params)
    }

    /// Offers a transaction of a development account. Returns its hash.
    fn send(&self, account: usize, tx_nonce: u64, to: Option<Address>, input: Vec<u8>) -> B256 {
        let secret = chain::spec::DEV_ACCOUNTS[account].1;
        let secret = SecretKey::from_hex(secret).expect("a key");
        let unsigned = UnsignedTransaction {
            tx_nonce,
            gas_price: U256::from(GAS_PRICE),
            gas: 200_000,
            to,
            input: input.into(),
            ..UnsignedTransaction::default()
        };
        let transaction = unsigned.sign(&secret, 100, TxForm::Native);
        self.chain
            .submit_transaction(transaction)
            .expect("a good transaction")
    }

    /// The solution of the next block. Seals are not checked, so any nonce is one.
    fn solution(&self) -> Solution {
        let next = self.chain.view().expect("a view").head_number() + 1;
        let package = wait_for("the work", || {
            let package = self.chain.work().current();
            package.filter(|package| package.number == Some(next))
        });
        Solution {
            header_hash: package.header_hash,
            pow_nonce: 7,
            mix_hash: B256::ZERO,
        }
    }
}

fn wait_for_agreement(halves: [&Half; 2]) {
    wait_for("the same head at both", || {
        (halves[0].head() == halves[1].head()).then_some(())
    });
}

/// Code that creates a contract with this code.
fn creation(runtime: &[u8]) -> Vec<u8> {
    let length = u8::try_from(runtime.len()).expect("short");
    // PUSH length, DUP1, PUSH start, PUSH 0, CODECOPY, PUSH 0, RETURN
    let mut code = vec![0x60, length, 0x80, 0x60, 0x0b, 0x60, 0, 0x39, 0x60, 0, 0xf3];
    code.extend(runtime);
    code
}

#[test]
fn halves_that_made_200_blocks_apart_agree() {
    let runtime = runtime();
    let (loser, winner) = (Half::start(&runtime, 0xa1), Half::start(&runtime, 0xb2));
    // Both have the contract.
    let created = loser.send(1, 0, None, creation(&LOGGER_RUNTIME));
    let first = loser.mine();
    winner.chain.import(first).expect("a good block");
    let receipt = loser.rpc("mc_getTransactionReceipt", json!([created.to_string()]));
    let logger: Address = receipt["contractAddress"]
        .as_str()
        .expect("an address")
        .parse()
        .expect("20 bytes");
    let filter = loser.rpc("mc_newFilter", json!([{ "address": logger.to_string() }]));

    let mut lost = Vec::new();
    for at in 0..APART {
        if at % TRANSACTION_EVERY == 0 {
            let nonce = 1 + at / TRANSACTION_EVERY;
            lost.push(loser.send(1, nonce, Some(logger), Vec::new()));
        }
        loser.mine();
    }
    for at in 0..=APART {
        if at % TRANSACTION_EVERY == 0 {
            winner.send(
                2,
                at / TRANSACTION_EVERY,
                Some(Address::repeat_byte(9)),
                Vec::new(),
            );
        }
        winner.mine();
    }
    let count = lost.len();
    let logs = |removed: bool| {
        let mut got = Vec::new();
        wait_for("the logs", || {
            let changes = loser.rpc("mc_getFilterChanges", json!([filter]));
            got.extend(changes.as_array().expect("a list").iter().cloned());
            (got.len() >= count).then_some(())
        });
        assert_eq!(got.len(), count);
        assert!(got.iter().all(|log| log["removed"] == removed), "{got:?}");
    };
    logs(false);
    let heads = loser.chain.subscribe();
    let heavier = winner.head();

    // The halves meet.
    assert!(loser.network().add_static(winner.contact()));
    wait_for_agreement([&loser, &winner]);
    assert_eq!(winner.head(), heavier, "the heavier half keeps its chain");
    let (mut reverted, mut applied) = (0, 0);
    wait_for("the event of the head", || {
        while let Ok(event) = heads.try_recv() {
            reverted += event.reverted.len() as u64;
            applied += event.applied.len() as u64;
        }
        (reverted >= APART && applied > APART).then_some(())
    });
    assert_eq!((reverted, applied), (APART, APART + 1));
    logs(true);

    // The transactions of the loser's blocks wait again, at both.
    for half in [&loser, &winner] {
        wait_for("the transactions of the lost blocks", || {
            lost.iter()
                .all(|hash| half.chain.pool().contains(hash))
                .then_some(())
        });
    }
    winner.mine();
    wait_for_agreement([&loser, &winner]);
    logs(false);
    for hash in &lost {
        assert_eq!(
            loser.rpc("mc_getTransactionReceipt", json!([hash.to_string()])),
            winner.rpc("mc_getTransactionReceipt", json!([hash.to_string()]))
        );
    }

    // Both seal a block at the same height. The second one is no head anywhere, but the other half
    // hears of it and pays for it as an uncle.
    let solutions = [&loser, &winner].map(|half| half.solution());
    let imported = loser.chain.submit_solution(&solutions[0]).expect("a good block");
    assert!(matches!(imported, Imported::Head { .. }), "{imported:?}");
    wait_for_agreement([&loser, &winner]);
    let first = winner.head();
    let imported = winner.chain.submit_solution(&solutions[1]).expect("a good block");
    assert_eq!(imported, Imported::Side);
    let with_uncle = wait_for("a block with an uncle", || {
        let view = loser.chain.view().expect("a view");
        let pending = loser.chain.pending(&view).expect("a block").block.clone();
        (!pending.uncles.is_empty()).then_some(pending)
    });
    let uncle = &with_uncle.uncles[0];
    assert_eq!(
        (with_uncle.header.parent_hash, uncle.beneficiary),
        (first, winner.beneficiary)
    );
    let before = winner.balance(&winner.beneficiary);
    let rewarded = winner.chain.import(with_uncle.clone());
    rewarded.expect("a good block");
    for half in [&loser, &winner] {
        wait_for("the block with the uncle", || {
            (half.head() == with_uncle.hash()).then_some(())
        });
    }
    let (reward, _) = uncle_rewards(loser.chain.spec(), with_uncle.header.number, uncle.number);
    for half in [&loser, &winner] {
        assert_eq!(half.balance(&winner.beneficiary), before + reward);
    }
    loser.node.stop(&runtime);
    winner.node.stop(&runtime);
}
