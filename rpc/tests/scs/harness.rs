//! An SCS with one MicroChain whose blocks never change, behind the real HTTP server.

use std::sync::Arc;
use std::time::Duration;

use chain::pool::PoolContent;
use primitives::{
    Address, B256, Bloom, Bytes, Header, Log, SecretKey, Transaction, TxForm, U256, UnsignedTransaction,
};
use rpc::health::Health;
use rpc::micro_chains::{
    DappCall, Exchange, ExchangeEntry, MicroChains, ServedAccount, ServedBlock, ServedChain, ServedChainInfo,
    ServedTransaction,
};
use rpc::node_servers;
use rpc::objects::TransactionPlace;
use rpc::server::TcpServer;
use rpc::server::http::HttpOptions;
use rpc::types::data;
use rpc::{Limits, Modules, Node, Rpc, RpcError, RpcResult, ScsNode, WalletChains, methods};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::shared::http_client::post;

/// The MicroChain.
pub(crate) const CHAIN: Address = Address::repeat_byte(0xcc);
/// A MicroChain that the SCS does not serve.
pub(crate) const UNKNOWN: Address = Address::repeat_byte(0x0c);
/// The id of the SCS.
pub(crate) const ID: Address = Address::repeat_byte(0x5c);
/// The first Dapp.
pub(crate) const DAPP_BASE: Address = Address::repeat_byte(0xdb);
/// A registered Dapp.
pub(crate) const DAPP: Address = Address::repeat_byte(0xda);
/// The height of the MicroChain.
pub(crate) const HEAD: u64 = 0x10;
/// An account whose exchange takes [`SLOW_TIME`] to compute.
pub(crate) const SLOW: Address = Address::repeat_byte(0x10);
pub(crate) const SLOW_TIME: Duration = Duration::from_secs(2);
/// Records of each list of the exchange.
pub(crate) const RECORDS: u64 = 12;

pub(crate) fn user() -> SecretKey {
    SecretKey::from_bytes(&[0x11; 32]).expect("a key")
}

/// The transaction of the user with this nonce. The one with nonce 0 creates a contract, the one
/// with nonce 2 failed, and those from 3 on are in no block.
pub(crate) fn transaction(tx_nonce: u64) -> Transaction {
    let unsigned = UnsignedTransaction {
        tx_nonce,
        to: Some(CHAIN),
        value: U256::from(5 + tx_nonce),
        input: [DAPP.as_slice(), &[1, 2, 3, 4]].concat().into(),
        sharding_flag: if tx_nonce == 0 { 3 } else { 1 },
        via: Some(Address::repeat_byte(0x71)),
        ..Default::default()
    };
    unsigned.sign(&user(), 100, TxForm::Native)
}

fn served(tx_nonce: u64) -> Option<ServedTransaction> {
    let log = Log {
        address: DAPP,
        topics: vec![B256::repeat_byte(7)],
        data: Bytes::from_static(b"logged"),
    };
    (tx_nonce < 3).then(|| ServedTransaction {
        transaction: transaction(tx_nonce),
        sender: user().address(),
        place: TransactionPlace {
            block_hash: block_hash(9),
            block_number: 9,
            index: tx_nonce as usize,
        },
        success: tx_nonce != 2,
        created: (tx_nonce == 0).then_some(DAPP),
        logs: vec![log; usize::from(tx_nonce == 1)],
        first_log: 4,
        logs_bloom: Bloom::ZERO,
        output: match tx_nonce {
            1 => Bytes::from_static(b"\x00\x01\xff"),
            _ => Bytes::new(),
        },
    })
}

pub(crate) fn block_hash(number: u64) -> B256 {
    B256::from(U256::from(0xb10c_0000 + number))
}

struct OneChain;

impl ServedChain for OneChain {
    fn head(&self) -> RpcResult<u64> {
        Ok(HEAD)
    }

    fn block(&self, number: u64) -> RpcResult<Option<ServedBlock>> {
        Ok((number <= HEAD).then(|| ServedBlock {
            hash: block_hash(number),
            header: Header {
                number,
                parent_hash: number.checked_sub(1).map(block_hash).unwrap_or_default(),
                beneficiary: if number == 0 { Address::ZERO } else { ID },
                timestamp: 10 * number,
                extra_data: Bytes::from_static(b"extra"),
                ..Header::default()
            },
            transactions: match number {
                9 => (0..3).map(|nonce| transaction(nonce).hash()).collect(),
                _ => Vec::new(),
            },
        }))
    }

    fn account(&self, account: &Address) -> RpcResult<ServedAccount> {
        Ok(if *account == user().address() {
            ServedAccount {
                balance: U256::from(1000),
                tx_nonce: 3,
            }
        } else {
            ServedAccount::default()
        })
    }

    fn dapps(&self) -> RpcResult<Vec<Address>> {
        Ok(vec![DAPP_BASE, DAPP])
    }

    fn info(&self) -> RpcResult<Option<ServedChainInfo>> {
        Ok(Some(ServedChainInfo {
            balance: U256::from(10).pow(U256::from(30)),
            block_reward: U256::from(500_000_000_000_000_u64),
            bond_limit: U256::from(10).pow(U256::from(18)),
            owner: user().address(),
            members: vec![ID],
            tx_reward: U256::from(100_000_000_000_u64),
            via_reward: U256::from(10_000_000_000_000_000_u64),
        }))
    }

    fn transaction(&self, hash: &B256) -> RpcResult<Option<ServedTransaction>> {
        Ok((0..3)
            .find(|nonce| transaction(*nonce).hash() == *hash)
            .and_then(served))
    }

    fn transaction_of(&self, sender: &Address, tx_nonce: u64) -> RpcResult<Option<ServedTransaction>> {
        Ok(if *sender == user().address() {
            served(tx_nonce)
        } else {
            None
        })
    }

    fn call(&self, call: &DappCall) -> RpcResult<Bytes> {
        if call.input.is_empty() {
            return Err(RpcError::refused("the call failed"));
        }
        // Says what it was asked.
        let dapp = call.dapp.unwrap_or(DAPP_BASE);
        Ok([dapp.as_slice(), call.from.as_slice(), &call.input]
            .concat()
            .into())
    }

    fn pool(&self) -> RpcResult<PoolContent> {
        let all = |nonce: u64| [(nonce, Arc::new(transaction(nonce)))].into();
        Ok(PoolContent {
            pending: [(user().address(), all(3))].into(),
            queued: [(user().address(), all(5))].into(),
        })
    }

    fn exchange(&self, user: Option<Address>, newest: u64) -> RpcResult<Exchange> {
        if user == Some(SLOW) {
            std::thread::sleep(SLOW_TIME);
        }
        let list = move |kind: u64, count: u64| {
            let entry = |index: u64| ExchangeEntry {
                user: user.unwrap_or_else(|| Address::repeat_byte(index as u8)),
                amount: U256::from(1000 * kind + index),
                time: 10_000 * kind + index,
            };
            (0..count).map(entry).collect::<Vec<_>>()
        };
        let finished = if user.is_some() { RECORDS } else { 0 };
        Ok(Exchange {
            deposits: list(1, finished),
            depositing: list(2, RECORDS),
            withdrawals: list(3, finished),
            withdrawing: list(4, RECORDS).split_off(RECORDS.saturating_sub(newest) as usize),
            withdrawing_count: RECORDS,
        })
    }
}

struct OneScs {
    node: Arc<Node>,
}

impl MicroChains for OneScs {
    fn id(&self) -> Address {
        ID
    }

    fn data_directory(&self) -> &str {
        "/home/scs/scsdata"
    }

    fn chains(&self) -> Vec<Address> {
        vec![CHAIN]
    }

    fn chain(&self, address: &Address) -> Option<Arc<dyn ServedChain>> {
        (*address == CHAIN).then(|| Arc::new(OneChain) as Arc<dyn ServedChain>)
    }

    fn wallet_node(&self, address: &Address) -> RpcResult<Option<Arc<Node>>> {
        Ok((*address == CHAIN).then(|| Arc::clone(&self.node)))
    }

    fn submit(&self, raw: &[u8]) -> RpcResult<B256> {
        if raw == transaction(3).encode_raw() {
            return Ok(transaction(3).hash());
        }
        Err(RpcError::refused("shardingFlag error: got 0, expected 1, 2 or 3"))
    }

    fn health(&self) -> RpcResult<Health> {
        Ok(Health {
            head: 1,
            age: 0,
            peers: 1,
            syncing: false,
        })
    }
}

/// The SCS under test.
pub(crate) struct TestScs {
    server: TcpServer,
    /// Keeps the server running.
    _runtime: Runtime,
}

impl TestScs {
    pub(crate) fn start() -> Self {
        let node = super::wallets::node();
        let context = Arc::new(ScsNode(Arc::new(OneScs { node })));
        let rpc = Rpc::new(context, methods::scs::methods(), Limits::default()).expect("valid rows");
        let dispatcher = Arc::new(rpc.dispatcher(&Modules::all()));
        let runtime = crate::shared::small_stack::runtime();
        let options = HttpOptions {
            host: "127.0.0.1".to_owned(),
            port: 0,
            ..HttpOptions::default()
        };
        let server = runtime
            .block_on(node_servers::start_scs_http(
                dispatcher,
                &options,
                WalletChains::new(rpc, &"scs,debug".parse().expect("modules")).expect("valid rows"),
            ))
            .expect("a free port");
        Self {
            server,
            _runtime: runtime,
        }
    }

    /// The address of the server.
    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.server.addresses()[0]
    }

    fn answer(&self, method: &str, params: &Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let body = post(self.server.addresses()[0], &body);
        serde_json::from_str(&body).expect("JSON")
    }

    /// The result of a call that must succeed.
    #[track_caller]
    pub(crate) fn ok(&self, method: &str, params: Value) -> Value {
        let mut answer = self.answer(method, &params);
        assert!(answer.get("error").is_none(), "{method} {params}: {answer}");
        answer["result"].take()
    }

    /// Compares the result of a call.
    #[track_caller]
    pub(crate) fn check(&self, method: &str, params: Value, expected: Value) {
        assert_eq!(self.ok(method, params.clone()), expected, "{method} {params}");
    }

    /// Compares the code of a call that must fail, and looks for a text in its message.
    #[track_caller]
    pub(crate) fn check_error(&self, method: &str, params: Value, code: i64, text: &str) {
        let answer = self.answer(method, &params);
        let error = &answer["error"];
        assert_eq!(error["code"], code, "{method} {params}: {answer}");
        let message = error["message"].as_str().unwrap_or_default();
        assert!(
            message.contains(text),
            "{method} {params}: got {message}, expected {text}"
        );
    }
}

/// The user's address as DATA.
pub(crate) fn user_text() -> String {
    data(user().address())
}
