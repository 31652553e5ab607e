//! Measures the index by address: searches and balances with it and without it, its size, and the
//! time to build it.
//!
//! The node is a process of its own, asked over HTTP. Each block has one transaction: mostly a
//! transfer to an account that nobody else pays, now and then a transfer of a token, and rarely
//! one to the account that is searched.

use std::path::Path;
use std::time::{Duration, Instant};

use bench::Failure;
use clap::Parser;
use e2e::process::EndSignal;
use e2e::{Launch, Vnode};
use primitives::{Address, B256, keccak256};
use serde_json::{Value, json};

/// The account that pays, one of the development network.
const PAYER: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
/// The account that is searched. It gets coins and tokens.
const RARE: Address = Address::repeat_byte(0x44);
/// The account that gets a token in the last block. When it has it, the index is complete.
const LAST: Address = Address::repeat_byte(0x55);
/// Blocks between two transfers of a token.
const TOKEN_EVERY: u64 = 10;
/// Longest time for building the index.
const BUILD_MAX: Duration = Duration::from_secs(600);
/// Pause between two looks whether it is complete.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Benchmark of the index by address.
#[derive(Debug, Parser)]
struct Options {
    /// Blocks of the chain; `trace_filter` takes at most 10000
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(100..=9_900))]
    blocks: u64,
    /// Transactions to the account that is searched
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=50))]
    matches: u64,
    /// Times that each question is asked
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    times: u64,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    let node = launch(&data, &[]);
    let token = make_chain(&node, &options)?;
    let head = number(&node.rpc("eth_blockNumber", json!([])))?;
    let without = ask_all(&node, &questions(&token, false), options.times)?;
    node.end(EndSignal::Interrupt);

    let begun = Instant::now();
    let node = launch(&data, &["--index", "address"]);
    while balances(&node, LAST)?.is_empty() {
        if begun.elapsed() > BUILD_MAX {
            return Err(format!("the index is not complete after {BUILD_MAX:?}").into());
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    let built = begun.elapsed();
    let with = ask_all(&node, &questions(&token, true), options.times)?;
    node.end(EndSignal::Interrupt);

    println!(
        "{head} blocks of one transaction, {} of them to the account",
        options.matches
    );
    println!(
        "{:<38} {:>8} {:>14} {:>14} {:>8}",
        "question", "found", "without (ms)", "with (ms)", "ratio"
    );
    for (without, with) in without.iter().zip(&with) {
        if without.found != with.found {
            return Err(format!(
                "{}: got {} with the index, expected {}",
                with.name, with.found, without.found
            )
            .into());
        }
        println!(
            "{:<38} {:>8} {:>14.2} {:>14.2} {:>8.0}",
            with.name,
            with.found,
            without.median.as_secs_f64() * 1e3,
            with.median.as_secs_f64() * 1e3,
            without.median.as_secs_f64() / with.median.as_secs_f64()
        );
    }
    let bytes = std::fs::metadata(data.join("addresses.redb"))?.len();
    println!(
        "index: {bytes} bytes, {:.0} for a transaction; built in {:.2} s with the start of the node, {:.2} ms for a block",
        bytes as f64 / head as f64,
        built.as_secs_f64(),
        built.as_secs_f64() * 1e3 / head as f64
    );
    Ok(())
}

fn launch(data: &Path, more: &[&str]) -> Vnode {
    let arguments = ["--dev.seal", "instant", "--rpcapi", "mc,net,trace,ots,vnode,eth"];
    Launch::dev(arguments.iter().chain(more).copied())
        .data(data)
        .start()
}

/// Makes the blocks. Returns the token.
fn make_chain(node: &Vnode, options: &Options) -> Result<Address, Failure> {
    let send = |call: Value| node.rpc("eth_sendTransaction", json!([call]));
    let hash = send(json!({"from": PAYER, "data": token_code(), "gas": "0x30d40"}));
    let receipt = node.rpc("eth_getTransactionReceipt", json!([hash]));
    let token: Address = receipt["contractAddress"].as_str().unwrap_or_default().parse()?;
    let pay = |to: Address| send(json!({"from": PAYER, "to": text(&to), "value": "0x1"}));
    let give = |to: Address| {
        let data = B256::left_padding_from(to.as_slice());
        send(json!({"from": PAYER, "to": text(&token), "data": data.to_string(), "gas": "0x186a0"}))
    };
    let rare_every = options.blocks / options.matches;
    for block in 0..options.blocks {
        let other = Address::left_padding_from(&(0xff00_0000_0000 + block).to_be_bytes());
        match block {
            1 => give(RARE),
            _ if block % rare_every == 0 && block / rare_every < options.matches => pay(RARE),
            _ if block % TOKEN_EVERY == 3 => give(other),
            _ => pay(other),
        };
    }
    give(LAST);
    Ok(token)
}

/// Code that creates a token. Each call logs a transfer of 7 to the account in its first word, and
/// returns 7.
fn token_code() -> String {
    let topic = keccak256("Transfer(address,address,uint256)");
    let from = &PAYER[2..];
    let code = format!("600760005260003573{from}7f{topic:x}60206000a360206000f3");
    let len = code.len() / 2;
    format!("0x60{len:02x}600c60003960{len:02x}6000f3{code}")
}

/// Asks a node, and counts what its answer has.
type AskQuestion = Box<dyn Fn(&Vnode) -> Result<usize, Failure>>;

/// A question, and how many things its answer has.
struct Question {
    name: &'static str,
    ask: AskQuestion,
}

struct AskedQuestion {
    name: &'static str,
    found: usize,
    median: Duration,
}

/// The questions. Without the index the tokens of an account are found by the logs of its
/// transfers, as a client would do it.
fn questions(token: &Address, is_indexed: bool) -> Vec<Question> {
    let list = |value: &Value| value.as_array().map_or(0, Vec::len);
    let token = *token;
    let filter = json!([{"fromBlock": "0x0", "toBlock": "latest", "toAddress": [text(&RARE)]}]);
    let topic = keccak256("Transfer(address,address,uint256)").to_string();
    let holder = B256::left_padding_from(RARE.as_slice()).to_string();
    let logs = json!([{"fromBlock": "0x0", "toBlock": "latest", "topics": [topic, null, holder]}]);
    let search = move |method: &'static str, block: u64| -> AskQuestion {
        Box::new(move |node| Ok(list(&node.rpc(method, json!([text(&RARE), block, 100]))["txs"])))
    };
    vec![
        Question {
            name: "ots_searchTransactionsBefore",
            ask: search("ots_searchTransactionsBefore", 0),
        },
        Question {
            name: "ots_searchTransactionsAfter",
            ask: search("ots_searchTransactionsAfter", 0),
        },
        Question {
            name: "trace_filter by address",
            ask: Box::new(move |node| Ok(list(&node.rpc("trace_filter", filter.clone())))),
        },
        Question {
            name: "vnode_tokenBalances (logs, then calls)",
            ask: Box::new(move |node| {
                if is_indexed {
                    return Ok(balances(node, RARE)?.len());
                }
                let found = list(&node.rpc("eth_getLogs", logs.clone()));
                for _ in 0..found {
                    // The four questions of a balance: balance, decimals, symbol, name.
                    for _ in 0..4 {
                        node.rpc("eth_call", json!([{"to": text(&token)}, "latest"]));
                    }
                }
                Ok(found)
            }),
        },
    ]
}

fn ask_all(node: &Vnode, questions: &[Question], times: u64) -> Result<Vec<AskedQuestion>, Failure> {
    let mut asked = Vec::new();
    for question in questions {
        let (mut took, mut found) = (Vec::new(), 0);
        for _ in 0..times {
            let begun = Instant::now();
            found = (question.ask)(node)?;
            took.push(begun.elapsed());
        }
        took.sort();
        asked.push(AskedQuestion {
            name: question.name,
            found,
            median: took[took.len() / 2],
        });
    }
    Ok(asked)
}

/// The tokens of an account by the index.
fn balances(node: &Vnode, account: Address) -> Result<Vec<Value>, Failure> {
    match node.rpc("vnode_tokenBalances", json!([text(&account)])) {
        Value::Array(tokens) => Ok(tokens),
        got => Err(format!("vnode_tokenBalances: got {got}, expected a list").into()),
    }
}

fn text(account: &Address) -> String {
    format!("{account:#x}")
}

fn number(quantity: &Value) -> Result<u64, Failure> {
    let digits = quantity.as_str().unwrap_or_default().trim_start_matches("0x");
    Ok(u64::from_str_radix(digits, 16)?)
}
