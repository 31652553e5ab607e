//! Blocks, transactions and accounts by their names, for the explorer of the dashboard.
//!
//! The answers are those of JSON-RPC, by the same code and within the same limits: a path becomes
//! one message of a few calls. Only the calls that are named here can be made. Nothing is changed
//! by them.
//!
//! | path | calls |
//! |---|---|
//! | `/explorer/blocks/NUMBER`, `/explorer/blocks/latest` | none: rows of blocks from the chain |
//! | `/explorer/block/NUMBER`, `/explorer/block/HASH` | the block, what it paid, what became of it |
//! | `/explorer/transaction/HASH` | the transaction, its receipt, its block |
//! | `/explorer/calls/HASH` | the calls inside of a transaction, by running it again |
//! | `/explorer/account/ADDRESS` | balance, nonce, code, the last transactions; tokens with an index by address |
//! | `/explorer/account/ADDRESS/before/NUMBER` | the same, with transactions below a block |

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chain::Chain;
use daemon::ClientId;
use daemon::status::{PageFuture, StatusPage};
use hyper::StatusCode;
use rpc::{Dispatcher, Modules, Node, node_servers};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::blocks::block_row;

/// The longest time for an answer. It is less than the time that the server gives a connection for
/// its last answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);
/// Blocks of a page.
const BLOCKS_PAGE: u64 = 25;
/// Transactions of a page.
const TRANSACTIONS_PAGE: u64 = 25;
/// The modules of the calls.
const MODULES: &str = "mc,ots,trace,vnode";
/// The answer to an unknown path.
const PATHS: &str = "paths: /explorer/blocks/NUMBER /explorer/block/NUMBER-OR-HASH \
                     /explorer/transaction/HASH /explorer/calls/HASH \
                     /explorer/account/ADDRESS\n";
/// The JSON-RPC error code of a wrong parameter.
const INVALID_PARAMS: i64 = -32602;

/// A call of JSON-RPC: the method and its parameters.
type ExplorerCall = (&'static str, Value);

/// A query without an answer.
#[derive(Debug)]
struct ExplorerError {
    code: StatusCode,
    message: String,
}

impl ExplorerError {
    fn new(code: StatusCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// The error of a call.
    fn of_call(error: &Value) -> Self {
        let code = match error["code"].as_i64() {
            Some(INVALID_PARAMS) => StatusCode::BAD_REQUEST,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        let message = error["message"].as_str().unwrap_or("the node gave no reason");
        Self::new(code, message)
    }
}

/// Answers the explorer.
pub struct ChainExplorer {
    dispatcher: Arc<Dispatcher<Node>>,
    chain: Chain,
}

impl std::fmt::Debug for ChainExplorer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChainExplorer").finish_non_exhaustive()
    }
}

/// The query of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExplorerQuery<'a> {
    Blocks(&'a str),
    Block(&'a str),
    Transaction(&'a str),
    Calls(&'a str),
    /// An account, and the block below which its transactions are.
    Account(&'a str, Option<&'a str>),
}

impl<'a> ExplorerQuery<'a> {
    /// Reads the query of a path after `/explorer/`.
    fn read(path: &'a str) -> Option<Self> {
        let mut parts = path.split('/');
        let (kind, name) = (parts.next()?, parts.next().filter(|name| !name.is_empty())?);
        let rest = (parts.next(), parts.next(), parts.next());
        match (kind, rest) {
            ("blocks", (None, ..)) => Some(Self::Blocks(name)),
            ("block", (None, ..)) => Some(Self::Block(name)),
            ("transaction", (None, ..)) => Some(Self::Transaction(name)),
            ("calls", (None, ..)) => Some(Self::Calls(name)),
            ("account", (None, ..)) => Some(Self::Account(name, None)),
            ("account", (Some("before"), Some(block), None)) => Some(Self::Account(name, Some(block))),
            _ => None,
        }
    }
}

impl ChainExplorer {
    /// An explorer that calls the methods of `dispatcher`, which serves at least
    /// [`Self::modules`].
    pub fn new(dispatcher: Arc<Dispatcher<Node>>) -> Self {
        let chain = dispatcher.context().chain.clone();
        Self { dispatcher, chain }
    }

    /// The modules of the methods that the explorer calls.
    pub fn modules() -> Modules {
        MODULES.parse().expect("a constant, checked by a test")
    }

    /// The page at `path`; `None` if the path is not of the explorer.
    pub fn page<'a>(&'a self, path: &'a str, client: ClientId) -> Option<PageFuture<'a>> {
        let path = path.strip_prefix("/explorer/")?;
        Some(Box::pin(async move {
            let Some(query) = ExplorerQuery::read(path) else {
                return StatusPage::not_found(PATHS);
            };
            let answer = tokio::time::timeout(ANSWER_TIMEOUT, self.answer(query, client)).await;
            let answer = answer.unwrap_or_else(|_| {
                let message = format!("the node has not found the answer within {ANSWER_TIMEOUT:?}");
                Err(ExplorerError::new(StatusCode::GATEWAY_TIMEOUT, message))
            });
            match answer {
                Ok(value) => StatusPage::json(&value),
                Err(ExplorerError { code, message }) => {
                    StatusPage::json(&json!({ "error": message })).with_code(code)
                }
            }
        }))
    }

    async fn answer(&self, query: ExplorerQuery<'_>, client: ClientId) -> Result<Value, ExplorerError> {
        match query {
            ExplorerQuery::Blocks(at) => self.blocks(at).await,
            ExplorerQuery::Block(at) => self.block(at, client).await,
            ExplorerQuery::Transaction(hash) => self.transaction(hash, client).await,
            ExplorerQuery::Calls(hash) => self.calls(hash, client).await,
            ExplorerQuery::Account(address, before) => self.account(address, before, client).await,
        }
    }

    /// The number of the head.
    fn head(&self) -> Result<u64, ExplorerError> {
        let view = self.chain.view().map_err(unreadable)?;
        Ok(view.head_number())
    }

    /// A page of blocks from `at` downwards.
    async fn blocks(&self, at: &str) -> Result<Value, ExplorerError> {
        let first = match at {
            "latest" => None,
            number => Some(block_number(number)?),
        };
        let chain = self.chain.clone();
        let rows = spawn_blocking(move || {
            let view = chain.view()?;
            let head = view.head_number();
            let own = chain.settings().beneficiary;
            let own = (!own.is_zero()).then_some(own);
            let first = first.unwrap_or(head).min(head);
            let mut rows = Vec::new();
            for number in (first.saturating_sub(BLOCKS_PAGE - 1)..=first).rev() {
                if let Some(block) = view.block(number)? {
                    rows.push(block_row(&view, &block, own)?);
                }
            }
            Ok::<_, store::StoreError>(json!({"head": head, "blocks": rows}))
        });
        match rows.await {
            Ok(rows) => rows.map_err(unreadable),
            Err(_) => Err(unreadable("the read has ended without a result; see the log")),
        }
    }

    async fn block(&self, at: &str, client: ClientId) -> Result<Value, ExplorerError> {
        let is_hash = at.len() == "0x".len() + 64;
        let (at, by_name) = if is_hash {
            (json!(at), "mc_getBlockByHash")
        } else {
            let number = match at {
                "latest" => "latest".to_owned(),
                number => rpc::types::quantity(block_number(number)?),
            };
            (json!(number), "mc_getBlockByNumber")
        };
        let calls = [(by_name, json!([at, true])), ("mc_getBlockReward", json!([at]))];
        let [block, payment] = self.call(calls, client).await?;
        let block = block.map_err(|error| ExplorerError::of_call(&error))?;
        let head = self.head()?;
        if block.is_null() {
            return Err(missing(format!(
                "there is no block {at}; the head is block {head}"
            )));
        }
        let payment = payment.map_err(|error| ExplorerError::of_call(&error))?;
        Ok(json!({"head": head, "block": block, "payment": payment}))
    }

    async fn transaction(&self, hash: &str, client: ClientId) -> Result<Value, ExplorerError> {
        let calls = [
            ("mc_getTransactionByHash", json!([hash])),
            ("mc_getTransactionReceipt", json!([hash])),
        ];
        let [transaction, receipt] = self.call(calls, client).await?;
        let transaction = transaction.map_err(|error| ExplorerError::of_call(&error))?;
        if transaction.is_null() {
            return Err(missing(format!("there is no transaction {hash}")));
        }
        let receipt = receipt.map_err(|error| ExplorerError::of_call(&error))?;
        let block_time = match &transaction["blockHash"] {
            Value::Null => Value::Null,
            hash => {
                let calls = [("mc_getBlockByHash", json!([hash, false]))];
                let [block] = self.call(calls, client).await?;
                block.map_or(Value::Null, |block| block["timestamp"].clone())
            }
        };
        Ok(json!({
            "head": self.head()?,
            "transaction": transaction,
            "receipt": receipt,
            "block_time": block_time,
        }))
    }

    async fn calls(&self, hash: &str, client: ClientId) -> Result<Value, ExplorerError> {
        let [calls] = self.call([("trace_transaction", json!([hash]))], client).await?;
        let calls = calls.map_err(|error| ExplorerError::of_call(&error))?;
        if calls.is_null() {
            return Err(missing(format!("there is no transaction {hash} in a block")));
        }
        Ok(json!({ "calls": calls }))
    }

    async fn account(
        &self,
        address: &str,
        before: Option<&str>,
        client: ClientId,
    ) -> Result<Value, ExplorerError> {
        // Block 0 stands for the end of the chain.
        let before = before.map(block_number).transpose()?.unwrap_or(0);
        let calls = [
            ("mc_getBalance", json!([address, "latest"])),
            ("mc_getTransactionCount", json!([address, "latest"])),
            ("mc_getCode", json!([address, "latest"])),
            (
                "ots_searchTransactionsBefore",
                json!([address, before, TRANSACTIONS_PAGE]),
            ),
        ];
        let tokens = ("vnode_tokenBalances", json!([address, "latest"]));
        let [balance, nonce, code, transactions] = self.call(calls, client).await?;
        // A node without an index by address does not know tokens.
        let [tokens] = self.call([tokens], client).await?;
        let of_call = |error: Value| ExplorerError::of_call(&error);
        let code = code.map_err(of_call)?;
        let code_bytes = code.as_str().map_or(0, |code| code.len().saturating_sub(2) / 2);
        // A node that keeps recent states only, or a very busy account: the rest is still shown.
        let transactions = transactions.unwrap_or_else(|error| json!({"error": error["message"]}));
        Ok(json!({
            "head": self.head()?,
            "address": address,
            "balance": balance.map_err(of_call)?,
            "nonce": nonce.map_err(of_call)?,
            "code_bytes": code_bytes,
            "code": code,
            "tokens": tokens.ok(),
            "transactions": transactions,
        }))
    }

    /// Makes calls, as one message of `client`. Returns the result of each, or its error.
    async fn call<const N: usize>(
        &self,
        calls: [ExplorerCall; N],
        client: ClientId,
    ) -> Result<[Result<Value, Value>; N], ExplorerError> {
        let requests = calls.iter().enumerate().map(
            |(id, (method, params))| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}),
        );
        let message = requests.collect::<Value>().to_string();
        let answer = node_servers::answer(&self.dispatcher, Bytes::from(message), client).await;
        let answer: Value = serde_json::from_slice(&answer.unwrap_or_default()).unwrap_or_default();
        // A message that is refused as a whole has one error.
        if answer.get("error").is_some() {
            return Err(ExplorerError::of_call(&answer["error"]));
        }
        let result = |id: usize| {
            let mut members = answer.as_array().into_iter().flatten();
            let member = members.find(|member| member["id"] == id).cloned();
            let mut member = member.unwrap_or_default();
            match member.get_mut("result") {
                Some(result) => Ok(result.take()),
                None => Err(member["error"].take()),
            }
        };
        Ok(std::array::from_fn(result))
    }
}

fn missing(message: String) -> ExplorerError {
    ExplorerError::new(StatusCode::NOT_FOUND, message)
}

fn unreadable(error: impl std::fmt::Display) -> ExplorerError {
    ExplorerError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        format!("the chain cannot be read: {error}"),
    )
}

/// Reads a block number in decimal digits, or in hex digits with `0x`.
fn block_number(text: &str) -> Result<u64, ExplorerError> {
    let number = match text.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            u64::from_str_radix(digits, 16).ok()
        }
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| {
        let shown: String = text.chars().take(80).collect();
        ExplorerError::new(
            StatusCode::BAD_REQUEST,
            format!(
                "got {shown}, expected a block number up to {}, or a hash of 0x and 64 digits",
                u64::MAX
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_queries() {
        for (path, expected) in [
            ("blocks/latest", Some(ExplorerQuery::Blocks("latest"))),
            ("block/7", Some(ExplorerQuery::Block("7"))),
            ("transaction/0x1", Some(ExplorerQuery::Transaction("0x1"))),
            ("calls/0x1", Some(ExplorerQuery::Calls("0x1"))),
            ("account/0x2", Some(ExplorerQuery::Account("0x2", None))),
            (
                "account/0x2/before/9",
                Some(ExplorerQuery::Account("0x2", Some("9"))),
            ),
            ("block", None),
            ("block/", None),
            ("block/7/8", None),
            ("account/0x2/after/9", None),
            ("account/0x2/before", None),
            ("account/0x2/before/9/9", None),
            ("money/7", None),
            ("", None),
        ] {
            assert_eq!(ExplorerQuery::read(path), expected, "{path}");
        }
    }

    #[test]
    fn block_numbers_have_digits_and_a_bound() {
        for (text, expected) in [
            ("0", Some(0)),
            ("0x1f", Some(31)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("0x", None),
            ("", None),
            ("+1", None),
            ("0x+1", None),
            ("seven", None),
            ("%37", None),
        ] {
            assert_eq!(block_number(text).ok(), expected, "{text}");
        }
        let error = block_number("seven").expect_err("no number");
        assert_eq!(error.code, StatusCode::BAD_REQUEST);
        assert!(error.message.starts_with("got seven, expected a block number"));
    }

    #[test]
    fn the_modules_exist() {
        assert!(ChainExplorer::modules().contains("trace"));
    }
}
