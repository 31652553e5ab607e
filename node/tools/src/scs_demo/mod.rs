//! `vnode scs-demo`: a node of the development network, three SCSs and a MicroChain with a Dapp, in
//! one process.
//!
//! Everything is made as a user would make it: by transactions of the base chain and of the
//! MicroChain. What was made is remembered in the data directory, so that the next start goes on
//! with it.

mod base_chain;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use chain::import::StateRetention;
use chain::spec::DEV_ACCOUNTS;
use keystore::ScryptCost;
use microchain::abi::{CallData, ResultReader};
use node::{CompanionError, DevSeal, RunningNode, StartError, VnodeConfig, VnodeOptions};
use primitives::{Address, Bytes, SecretKey, ShaAmount, Transaction, U256, UnsignedTransaction};
use rpc::MicroChains;
use rpc::server::TcpServer;
use rpc::server::http::HttpOptions;
use scs_node::admission::JoinRules;
use scs_node::{ScsNodeConfig, ScsRunner, ScsRunnerError};
use serde_json::{Value, json};
use store::StoreError;

use crate::scs_program::{KEY_FOLDER, LockedKey, PASSWORD_DEFAULT, ScsKeyError, open_key, start_http};
use base_chain::{DemoAccount, DemoCall, creation, input, wait_for};

/// SCSs of the demo. A MicroChain with fewer than two cannot flush.
const SCS_COUNT: u16 = 3;
/// The file with what was made.
const STATE_FILE: &str = "scs-demo.json";
/// The development account that owns the contracts. The first one is paid for blocks.
const OWNER: usize = 1;
/// Tokens of the MicroChain.
const SUPPLY: u64 = 1_000_000;
/// Tokens for a coin.
const RATE: u64 = 1000;
/// Base blocks from one flush to the next.
const FLUSH_ROUND: u64 = 40;
/// Coins that each SCS gets for gas.
const SCS_COINS: u64 = 5;
/// Coins that each SCS bonds.
const BOND_COINS: u64 = 10;

/// An error that ends the demo.
#[derive(Debug, thiserror::Error)]
pub enum ScsDemoError {
    /// The chain cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An SCS cannot start.
    #[error(transparent)]
    Runner(#[from] ScsRunnerError),
    /// An SCS has no key.
    #[error(transparent)]
    Key(#[from] ScsKeyError),
    /// An SCS cannot serve HTTP.
    #[error(transparent)]
    Serve(#[from] rpc::server::ServeError),
    /// The file of the demo cannot be used.
    #[error("{}: {reason}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A contract is not among the compiled ones.
    #[error("contracts/compiled.json: got no {0}, expected its code")]
    Contract(String),
    /// A transaction was not taken.
    #[error("a transaction was refused: {0}")]
    Refused(String),
    /// A transaction failed.
    #[error("{0}: the transaction failed")]
    Failed(String),
    /// Something did not happen.
    #[error("{0}: nothing came in three minutes")]
    Patience(String),
    /// The service for SCS servers does not run.
    #[error("the service for SCS servers does not run")]
    NoService,
}

/// The options of the SCSs.
#[derive(Clone, Copy, Debug)]
struct DemoOptions {
    /// Port of the first SCS; 0 for free ones.
    scs_port: u16,
    /// Seconds between two blocks of the MicroChain.
    period_secs: u64,
}

/// The addresses of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DemoContracts {
    chain: Address,
    dapp_base: Address,
    counter: Address,
}

/// An SCS of the demo.
struct DemoScs {
    runner: ScsRunner,
    server: TcpServer,
    id: Address,
    /// Locked while the SCS runs.
    _key: LockedKey,
}

/// Runs the node of the development network, three SCSs and a MicroChain until SIGINT or SIGTERM.
///
/// # Errors
/// [`StartError`] if the node or an SCS cannot start or cannot go on.
pub fn run(
    options: &VnodeOptions,
    rpc_port: u16,
    scs_port: u16,
    period_secs: u64,
) -> Result<(), Box<StartError>> {
    let options = VnodeOptions {
        command: None,
        dev: true,
        // Blocks come each second and with each transaction, and no processor searches for seals.
        mine: false,
        dev_seal: DevSeal::Instant,
        dev_period: options.dev_period.or(Some(1)),
        rpc: true,
        rpcport: rpc_port,
        rpcapi: "chain3,mc,net,vnode,txpool,personal".parse().unwrap_or_default(),
        ..options.clone()
    };
    let config = VnodeConfig {
        scs_service: true,
        service_cfg: "localhost:0".to_owned(),
        beneficial_address: Some(DEV_ACCOUNTS[0].0),
        ..VnodeConfig::default()
    };
    let demo = DemoOptions {
        scs_port,
        period_secs,
    };
    let play = move |node| -> Pin<Box<dyn Future<Output = CompanionError> + Send>> {
        Box::pin(async move { format!("scs-demo: {}", play(node, demo).await).into() })
    };
    Ok(node::run_with(&options, config, Box::new(play))?)
}

/// Plays until it is dropped, or until something fails.
async fn play(stage: RunningNode, options: DemoOptions) -> ScsDemoError {
    match start(&stage, options).await {
        Ok(_scs) => std::future::pending().await,
        Err(error) => error,
    }
}

async fn start(stage: &RunningNode, options: DemoOptions) -> Result<Vec<DemoScs>, ScsDemoError> {
    let mut servers = Vec::new();
    for index in 0..SCS_COUNT {
        servers.push(start_scs(stage, options, index).await?);
    }
    let owner = SecretKey::from_hex(DEV_ACCOUNTS[OWNER].1).expect("a constant, checked by a test of `chain`");
    let owner = DemoAccount::new(stage.chain.clone(), owner);
    let path = stage.directory.join(STATE_FILE);
    let contracts = match read_state(&path)? {
        Some(contracts) => contracts,
        None => {
            println!("demo       making a MicroChain; this takes about half a minute");
            let contracts = make(stage, &owner, &servers).await?;
            write_state(&path, &contracts)?;
            contracts
        }
    };
    tell(stage, &servers, &contracts);
    Ok(servers)
}

/// Starts one SCS with its HTTP server.
async fn start_scs(stage: &RunningNode, options: DemoOptions, index: u16) -> Result<DemoScs, ScsDemoError> {
    let home = stage.directory.join(format!("scs{}", index + 1));
    // The keys hold coins of the development network only.
    let directory = home.join("scsdata");
    let old = home.join(KEY_FOLDER);
    let locked = open_key(&directory, &old, PASSWORD_DEFAULT, ScryptCost::LIGHT)?;
    let id = locked.key.address();
    let runner = ScsRunner::start(ScsNodeConfig {
        vnode: stage.service.to_string(),
        tls: None,
        chain_id: stage.chain.chain_id(),
        key: locked.key.clone(),
        directory,
        period_secs: options.period_secs,
        // Nobody else makes blocks of its base chain.
        confirmations: 1,
        beneficiary: Address::ZERO,
        join: JoinRules::default(),
        bond_max: ShaAmount::COIN.0,
        reward_min: U256::ZERO,
        capability: 10,
        chains: BTreeSet::new(),
        reconnect_max: std::time::Duration::from_secs(5),
        states: StateRetention::Archive,
        blocks: None,
        checks: None,
    })?;
    let http = HttpOptions {
        port: if options.scs_port == 0 {
            0
        } else {
            options.scs_port.saturating_add(index)
        },
        ..HttpOptions::default()
    };
    // Everything that developers and the explorer Otterscan ask for.
    let modules = "scs,net,txpool,debug,trace,ots,erigon"
        .parse()
        .unwrap_or_default();
    let server = start_http(&runner, &http, &modules).await?;
    Ok(DemoScs {
        runner,
        server,
        id,
        _key: locked,
    })
}

/// Makes pools, chain base, members, `DappBase` and a Dapp.
async fn make(
    stage: &RunningNode,
    owner: &DemoAccount,
    servers: &[DemoScs],
) -> Result<DemoContracts, ScsDemoError> {
    let number = |number: u64| U256::from(number);
    let coins = |coins| ShaAmount::from_coins(coins).0;
    let pool_arguments = CallData::default()
        .bytes(b"POR")
        .number(number(BOND_COINS))
        .number(number(0));
    let pool = owner.create("ScsPool", pool_arguments).await?;
    let vnodes = owner
        .create("VnodePool", CallData::default().number(number(1)))
        .await?;
    let chain_arguments = CallData::default()
        .address(pool)
        .address(vnodes)
        .number(number(3))
        .number(number(11))
        .number(number(1000))
        .number(number(FLUSH_ROUND))
        .number(number(SUPPLY))
        .number(number(RATE));
    let chain = owner.create("ChainBase", chain_arguments).await?;
    let fund = DemoCall::function(chain, "addFund()", CallData::default()).paying(coins(100));
    owner.submit(fund)?;
    let vnode_arguments = CallData::default()
        .address(stage.via)
        .address(stage.via)
        .bytes(stage.service.to_string().as_bytes())
        .bytes(stage.endpoints.first().map_or("", String::as_str).as_bytes());
    let vnode = DemoCall::function(vnodes, "register(address,address,string,string)", vnode_arguments);
    owner.submit(vnode.paying(coins(1)))?;
    let mut last = None;
    for scs in servers {
        owner.submit(DemoCall {
            to: Some(scs.id),
            value: coins(SCS_COINS),
            data: Bytes::new(),
            gas: 21_000,
        })?;
        let register = DemoCall::function(pool, "register(address)", CallData::default().address(scs.id));
        last = Some(owner.submit(register.paying(coins(BOND_COINS)))?.1);
    }
    if let Some(hash) = last {
        owner.receipt(hash, "registration with the pool of SCSs").await?;
    }
    // An SCS counts from the sixth block after its registration on.
    owner.wait_for_blocks(6).await?;
    let open = DemoCall::function(chain, "registerOpen()", CallData::default());
    owner.transact(open, "registerOpen").await?;
    wait_for("three SCSs that join", || {
        let count = owner.read(chain, "nodeCount()", CallData::default())?;
        let count = ResultReader::new(&count).small().unwrap_or_default();
        Ok((count >= u64::from(SCS_COUNT)).then_some(()))
    })
    .await?;
    let close = DemoCall::function(chain, "registerClose()", CallData::default());
    owner.transact(close, "registerClose").await?;
    make_dapps(stage, owner, &servers[0], chain).await
}

/// Creates `DappBase` and a counter on the MicroChain, and registers the counter.
async fn make_dapps(
    stage: &RunningNode,
    owner: &DemoAccount,
    scs: &DemoScs,
    chain: Address,
) -> Result<DemoContracts, ScsDemoError> {
    let dapp_base_code = creation(
        "DappBase",
        CallData::default().bytes(b"DEMO").number(U256::from(1)),
    )?;
    let flagged = |tx_nonce, sharding_flag, value, data| UnsignedTransaction {
        tx_nonce,
        to: Some(chain),
        value,
        input: data,
        sharding_flag,
        via: Some(stage.via),
        ..UnsignedTransaction::default()
    };
    let created = |tx_nonce| Transaction::created_address(&owner.address(), tx_nonce);
    let dapp_base = created(0);
    let supply = ShaAmount::from_coins(SUPPLY).0;
    send(stage, owner, scs, &flagged(0, 3, supply, dapp_base_code)).await?;
    send(
        stage,
        owner,
        scs,
        &flagged(1, 3, U256::ZERO, creation("Counter", CallData::default())?),
    )
    .await?;
    let counter = created(1);
    let register = input(
        "registerDapp(address,address,string)",
        CallData::default()
            .address(counter)
            .address(owner.address())
            .bytes(b"[]"),
    );
    let register = [dapp_base.as_slice(), &register].concat().into();
    send(stage, owner, scs, &flagged(2, 1, U256::ZERO, register)).await?;
    Ok(DemoContracts {
        chain,
        dapp_base,
        counter,
    })
}

/// Sends a transaction of the MicroChain, and waits until an SCS has it in a block.
async fn send(
    stage: &RunningNode,
    owner: &DemoAccount,
    scs: &DemoScs,
    unsigned: &UnsignedTransaction,
) -> Result<(), ScsDemoError> {
    let signed = owner.sign(unsigned);
    let submitted = stage.control.submit(&signed);
    let hash = submitted.map_err(|error| ScsDemoError::Refused(error.to_string()))?;
    let chain = unsigned.to.unwrap_or_default();
    let served = scs.runner.served();
    let success = wait_for("a receipt on the MicroChain", || {
        let chain = served.chain(&chain);
        let found = chain.and_then(|chain| chain.transaction(&hash).ok().flatten());
        Ok(found.map(|found| found.success))
    });
    if success.await? {
        return Ok(());
    }
    Err(ScsDemoError::Failed(format!(
        "transaction {hash} of the MicroChain"
    )))
}

/// Prints what runs and how to use it.
fn tell(stage: &RunningNode, servers: &[DemoScs], contracts: &DemoContracts) {
    let DemoContracts {
        chain,
        dapp_base,
        counter,
    } = contracts;
    println!("microchain {chain:#x}");
    println!("dappbase   {dapp_base:#x}");
    println!("dapp       {counter:#x} (a counter)");
    println!("via        {:#x}", stage.via);
    println!("vnode      {}", stage.endpoints.join(" "));
    for scs in servers {
        let address = scs.server.addresses().first();
        let address = address.map(SocketAddr::to_string).unwrap_or_default();
        println!("scs        {:#x} http://{address}", scs.id);
    }
    println!("demo       ready; Ctrl-C ends it");
}

fn read_state(path: &Path) -> Result<Option<DemoContracts>, ScsDemoError> {
    let wrong = |reason: String| ScsDemoError::State {
        path: path.to_owned(),
        reason,
    };
    if !path.is_file() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let state: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let address = |name: &str| {
        let text = state[name].as_str().and_then(|text| text.parse().ok());
        text.ok_or_else(|| wrong(format!("{name}: expected an address")))
    };
    Ok(Some(DemoContracts {
        chain: address("microchain")?,
        dapp_base: address("dappbase")?,
        counter: address("counter")?,
    }))
}

fn write_state(path: &Path, contracts: &DemoContracts) -> Result<(), ScsDemoError> {
    let state = json!({
        "microchain": contracts.chain.to_string(),
        "dappbase": contracts.dapp_base.to_string(),
        "counter": contracts.counter.to_string(),
    });
    std::fs::write(path, state.to_string()).map_err(|error| ScsDemoError::State {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}
