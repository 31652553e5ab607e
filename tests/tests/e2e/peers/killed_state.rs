//! A node that fetches a state and is killed at random moments: each start goes on where the last
//! one was, and the end is a whole database with the right head.
//!
//! Variables of the environment make it longer: `SNAP_KILLS`, `SNAP_ACCOUNTS`, `SNAP_LIFE_MILLIS`
//! (a life is at most so long) and `SNAP_SEED`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chain::chain::Chain;
use chain::mining::build::build;
use chain::rules::seal::SealCheck;
use chain::{ChainConfig, ChainSpec};
use e2e::process::EndSignal;
use e2e::wait::wait_within;
use e2e::{Launch, Vnode, note, quantity};
use primitives::{Address, hex, keccak256};
use serde_json::{Map, Value, json};
use store::Store;

use crate::peers::support::plain_enode;
use crate::vnode::offline::{assert_contains, run_ok, text};

const BLOCKS: u64 = 200;
/// The most time for one life that is not killed.
const END_MAX: Duration = Duration::from_secs(600);
/// The most time that a kill may cost.
const LOST_MAX: Duration = Duration::from_secs(60);

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

fn account(index: u64) -> Address {
    Address::from_slice(&keccak256(index.to_be_bytes())[12..])
}

/// A network with accounts as on Ethereum Classic: 17 of 20 are contracts with few codes, one of
/// 100 has slots.
fn genesis(accounts: u64) -> String {
    let mut alloc = Map::new();
    for index in 0..accounts {
        let mut fields = json!({"balance": format!("{:#x}", index + 1)});
        if index % 20 < 17 {
            let code = (index % (accounts / 2000 + 1) + 1).to_be_bytes();
            fields["code"] = json!(hex::encode_prefixed(code.repeat(3)));
        }
        if index.is_multiple_of(100) {
            let slot = |slot: u64| {
                (
                    format!("{slot:#x}"),
                    json!(format!("{:#x}", index % 5000 + slot + 1)),
                )
            };
            fields["storage"] = Value::Object((0..16).map(slot).collect());
        }
        alloc.insert(hex::encode(account(index)), fields);
    }
    let config = json!({"chainId": 4711, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0,
        "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0});
    let genesis = json!({"config": config, "difficulty": "0x20000", "gasLimit": "0x7a1200", "alloc": alloc});
    genesis.to_string()
}

/// The encoded blocks above block 0, which are empty and have no seals.
fn blocks(genesis: &str) -> Vec<u8> {
    let config = ChainConfig {
        spec: Arc::new(
            ChainSpec::from_genesis_file("killed", genesis)
                .expect("a genesis file")
                .spec,
        ),
        seals: SealCheck::Off,
        forks: Default::default(),
        pool: Default::default(),
        beneficiary: Address::repeat_byte(0xbe),
        extra_data: Default::default(),
        states: Default::default(),
    };
    let chain = Chain::open(Store::in_memory().expect("a store"), config).expect("a chain");
    let mut stream = Vec::new();
    for number in 1..=BLOCKS {
        let view = chain.view().expect("a view");
        let ready = chain.pool().ready();
        let (spec, settings) = (chain.spec(), chain.settings());
        let draft = build(
            spec,
            view.snapshot(),
            view.head(),
            15 * number,
            &settings,
            ready,
            &[],
        );
        let block = draft.expect("a block").block;
        chain.import(block.clone()).expect("a good block");
        stream.extend(block.encode());
    }
    chain.stop();
    stream
}

fn start(data: &Path, mode: &str) -> Vnode {
    let options = [
        "--fakepow",
        "--rpc",
        "--rpcport",
        "0",
        "--rpcapi",
        "net,admin,mc,eth",
        "--syncmode",
        mode,
    ];
    Launch::bare(options).data(data).start()
}

/// The accounts that a life has shown, with the times at which it did.
type Life = Vec<(Duration, u128)>;

/// The time that passed between the last moment at which no more than `accounts` were there, and
/// the end of that life: all of it if there was no such moment.
fn lost(life: &Life, end: Duration, accounts: u128) -> Duration {
    let kept = life.iter().rev().find(|(_, there)| *there <= accounts);
    end.saturating_sub(kept.map_or(Duration::ZERO, |(at, _)| *at))
}

#[test]
fn a_state_is_fetched_by_a_node_that_is_killed_again_and_again() {
    let kills = setting("SNAP_KILLS", 3);
    let life_millis = setting("SNAP_LIFE_MILLIS", 400);
    let mut random = setting("SNAP_SEED", 7);
    let home = tempfile::Builder::new().prefix("vn").tempdir().expect("a folder");
    let [file, stream, giving, taking] =
        ["genesis.json", "blocks.rlp", "giving", "taking"].map(|name| home.path().join(name));
    let genesis = genesis(setting("SNAP_ACCOUNTS", 20_000));
    std::fs::write(&stream, blocks(&genesis)).expect("a file");
    std::fs::write(&file, genesis).expect("a file");
    run_ok(&giving, &["init", text(&file)]);
    run_ok(&giving, &["--fakepow", "import", text(&stream)]);
    let giver = start(&giving, "full");
    let goal = giver.rpc("mc_getBlockByNumber", json!(["latest", false]));

    let (mut killed, mut ends, mut longest) = (0, 0, Duration::ZERO);
    let mut last: Option<(Life, Duration)> = None;
    while killed < kills || last.is_some() {
        if last.is_none() {
            run_ok(&taking, &["init", text(&file)]);
        }
        // xorshift64
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let until = (killed < kills).then(|| Duration::from_millis(random % life_millis));
        let begun = Instant::now();
        let node = start(&taking, "snap");
        let mut life = Life::new();
        let is_due = || until.is_some_and(|until| begun.elapsed() >= until);
        if !is_due() {
            // A later start dials it by itself.
            assert_eq!(node.rpc("admin_addPeer", json!([plain_enode(&giver)])), true);
        }
        let ended = wait_for_end(&node, &goal, is_due, || {
            let syncing = node.rpc("eth_syncing", json!([]));
            if let Some(accounts) = syncing
                .get("syncedAccounts")
                .map(quantity)
                .filter(|count| *count > 0)
            {
                if let (None, Some((before, end))) = (life.last(), &last) {
                    longest = longest.max(lost(before, *end, accounts));
                }
                life.push((begun.elapsed(), accounts));
            }
        });
        if ended {
            let balance = node.rpc("mc_getBalance", json!([account(11), "latest"]));
            assert_eq!(balance, json!("0xc"));
            assert!(node.end(EndSignal::Terminate).status.success());
            assert_contains(&run_ok(&taking, &["db", "check", "--full"]), &["no faults"]);
            std::fs::remove_dir_all(&taking).expect("removed");
            ends += 1;
            last = None;
        } else {
            let end = begun.elapsed();
            // Dropping the node kills it.
            drop(node);
            killed += 1;
            // A life that has shown nothing says nothing of what the one before it has lost.
            if !life.is_empty() || last.is_none() {
                last = Some((life, end));
            }
        }
    }
    note(&format!(
        "killed {killed} times, {ends} states fetched, a kill cost {longest:?} at most"
    ));
    assert!(
        longest < LOST_MAX,
        "got {longest:?}, expected less than {LOST_MAX:?}"
    );
}

/// Looks at the node until it has the goal, or until it is due to be killed. Returns whether it
/// has the goal.
fn wait_for_end(node: &Vnode, goal: &Value, is_due: impl Fn() -> bool, mut look: impl FnMut()) -> bool {
    wait_within(END_MAX, "the state and its blocks", || {
        if is_due() {
            return Some(false);
        }
        look();
        let head = node.rpc("mc_getBlockByNumber", json!(["latest", false]));
        (head["hash"] == goal["hash"] && node.rpc("eth_syncing", json!([])) == false).then_some(true)
    })
}
