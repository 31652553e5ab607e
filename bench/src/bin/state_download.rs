//! Fetches a state of Ethereum Classic's mix from a node over loopback, and measures each step.
//!
//! The node that gives the state is a process of its own: this program, started again. The one that
//! takes it has the download of a real node (`SnapClient`) and a store on a disk, and asks over
//! several real connections. It has no headers, no blocks and no second node, and the pivot stays.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bench::attacks::PlayedNode;
use bench::clock::{Clock, Took};
use bench::network_node::{open_chain, start_network};
use bench::{Failure, chain_spec, next_block, receiver};
use chain::ChainSpec;
use chain::fetched_state::FetchedState;
use chain::genesis::ensure_genesis;
use chain::rules::seal::SealCheck;
use chain::spec::GenesisAccount;
use clap::Parser;
use network::NodeContact;
use network::snap::SnapMessage;
use network::snap::client::{SnapAction, SnapClient, SnapEvent, SnapPhase, SnapPivot};
use network::testing::{Entropy, PeerId, RequestTicket, contact_of};
use primitives::{Enode, U256};
use store::{Store, StoreOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The gas limit of the blocks, which have no transactions.
const GAS_LIMIT: u64 = 9_000_000;
/// The download is saved after this time at the latest, as in a node.
const SAVE_INTERVAL: Duration = Duration::from_secs(10);
/// Of 20 accounts so many are contracts: 85 in a hundred.
const CONTRACTS_OF_20: u64 = 17;
/// Accounts for each code: Ethereum Classic had 66.9 million and 28,813.
const ACCOUNTS_PER_CODE: u64 = 2322;
/// Of so many accounts one has slots, and all of them share so many kinds of storage.
const ACCOUNTS_PER_STORAGE: u64 = 100;
const STORAGE_KINDS: u64 = 50;
/// Slots of a storage: one for six accounts.
const STORAGE_SLOTS: u64 = 16;
/// Most contracts are children of `GasToken`, which are as short.
const CODE_BYTES: usize = 24;

/// The download of a state.
#[derive(Debug, Parser)]
struct Options {
    /// Accounts of the state
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    accounts: u64,
    /// Connections to the node that gives the state
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=25))]
    connections: u8,
    /// Folder for the databases [default: the folder for temporary files]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Give the state, until the standard input ends. The program starts itself with it
    #[arg(long, hide = true)]
    give: bool,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let parent = options.directory.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::tempdir_in(&parent)?;
    if options.give {
        return give(&options, folder.path());
    }
    let mut giver = Command::new(std::env::current_exe()?);
    giver
        .arg("--give")
        .arg("--accounts")
        .arg(options.accounts.to_string());
    giver.arg("--directory").arg(&parent);
    let mut giver = giver.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(giver.stdout.take().ok_or("no output")?).lines();
    let mut line = || -> Result<String, Failure> { Ok(lines.next().ok_or("the node that gives ended")??) };
    let contact: Enode = line()?.parse()?;
    let pivot = SnapPivot {
        number: 1,
        root: line()?.parse()?,
    };
    let contact = NodeContact::from_enode(&contact).ok_or("the node has no port")?;
    take(&options, folder.path(), contact, pivot)?;
    drop(giver.stdin.take());
    println!("the node that gives: {} s of processor", line()?);
    giver.wait()?;
    Ok(())
}

/// Makes the state and gives it. Prints where it is, the root, and at the end the processor time.
fn give(options: &Options, folder: &Path) -> Result<(), Failure> {
    let spec = Arc::new(spec(options.accounts)?);
    let store = Store::open(folder, &StoreOptions::default())?;
    ensure_genesis(&store, &spec)?;
    let chain = open_chain(store.clone(), &spec, SealCheck::Off)?;
    // The state of block 0 is given to nobody.
    chain.import(next_block(&spec, &store, Vec::new())?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let service = runtime.block_on(start_network(&chain, folder, Vec::new()))?;
    println!("{}", contact_of(service.handle()).to_enode());
    println!("{}", chain.view()?.head().header.state_root);
    let clock = Clock::start();
    std::io::stdin().read_to_end(&mut Vec::new())?;
    println!("{:.1}", clock.stop().processor.as_secs_f64());
    runtime.block_on(service.stop());
    chain.stop();
    Ok(())
}

/// The rules, and block 0 with all accounts.
fn spec(accounts: u64) -> Result<ChainSpec, Failure> {
    let mut spec = chain_spec(GAS_LIMIT)?;
    let code = |kind: u64| {
        let number = kind.to_be_bytes();
        number
            .iter()
            .copied()
            .cycle()
            .take(CODE_BYTES)
            .collect::<Vec<_>>()
            .into()
    };
    let codes: Vec<primitives::Bytes> = (1..=accounts / ACCOUNTS_PER_CODE + 1).map(code).collect();
    let storage = |kind: u64| -> BTreeMap<U256, U256> {
        let slot = |index| (U256::from(index), U256::from(kind * STORAGE_SLOTS + index + 1));
        (0..STORAGE_SLOTS).map(slot).collect()
    };
    for index in 0..accounts {
        let mut account = GenesisAccount {
            balance: U256::from(index + 1),
            ..GenesisAccount::default()
        };
        if index % 20 < CONTRACTS_OF_20 {
            account.code = codes[index as usize % codes.len()].clone();
        }
        if index % ACCOUNTS_PER_STORAGE == 0 {
            account.storage = storage(index / ACCOUNTS_PER_STORAGE % STORAGE_KINDS);
        }
        spec.genesis.alloc.insert(receiver(index), account);
    }
    Ok(spec)
}

/// A question for a connection, and an answer of one.
type Asked = (RequestTicket, SnapMessage);
type Answered = (PeerId, RequestTicket, SnapMessage, Duration);

fn take(options: &Options, folder: &Path, contact: NodeContact, pivot: SnapPivot) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (answers, answered) = channel();
    let mut connections = BTreeMap::new();
    for index in 0..options.connections {
        let (questions, asked) = unbounded_channel();
        let peer = PeerId(u64::from(index) + 1);
        connections.insert(peer, questions);
        let answers = answers.clone();
        runtime.spawn(async move {
            if let Err(error) = ask(&contact, (peer, index), asked, &answers).await {
                eprintln!("connection {index}: {error}");
            }
        });
    }
    let store = Store::open(folder, &StoreOptions::default())?;
    let mut download = Download {
        state: FetchedState::begin(&store)?.0,
        client: SnapClient::new(),
        connections,
        answered,
    };
    let clock = Clock::start();
    let built = download.run(pivot)?;
    let took = clock.stop();
    let figures = download.client.figures();
    println!(
        "{} accounts, {} slots, {} codes, {:.0} MiB in answers",
        figures.accounts,
        figures.slots,
        figures.codes,
        mib(figures.bytes)
    );
    print_step("ranges", took - built, figures.accounts);
    print_step("tries", built, figures.accounts);
    print_step("all", took, figures.accounts);
    let bytes = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.metadata()?.len()));
    let bytes = bytes.sum::<std::io::Result<u64>>()?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!(
        "file {:.0} MiB, {:.0} bytes an account; memory at most {}",
        mib(bytes),
        bytes as f64 / figures.accounts as f64,
        peak.unwrap_or("not known").trim()
    );
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

fn print_step(name: &str, took: Took, accounts: u64) {
    println!(
        "{name}: {:.1} s, {:.1} s of processor, of which {:.1} s by the thread of the download; {:.0} accounts a second",
        took.wall.as_secs_f64(),
        took.processor.as_secs_f64(),
        took.thread.as_secs_f64(),
        accounts as f64 / took.wall.as_secs_f64()
    );
}

/// The side that takes.
struct Download {
    state: FetchedState,
    client: SnapClient,
    connections: BTreeMap<PeerId, UnboundedSender<Asked>>,
    answered: Receiver<Answered>,
}

impl Download {
    /// Fetches all. Returns the time in which the tries were built.
    fn run(&mut self, pivot: SnapPivot) -> Result<Took, Failure> {
        let mut built = Took::default();
        let mut saved = Instant::now();
        let mut events: Vec<SnapEvent> = self.connections.keys().copied().map(SnapEvent::Joined).collect();
        events.push(SnapEvent::Pivot(pivot));
        loop {
            while let Some(event) = events.pop() {
                for action in self.client.handle(event, &mut self.state)? {
                    match action {
                        SnapAction::Ask {
                            peer,
                            ticket,
                            request,
                        } => self.connections[&peer].send((ticket, request))?,
                        SnapAction::Drop { peer, fault } => {
                            return Err(format!("connection {peer:?}: got {fault:?}").into());
                        }
                        SnapAction::Build => {
                            let clock = Clock::start();
                            let root = self.state.build(|_| ())?;
                            built = clock.stop();
                            if root != pivot.root {
                                return Err(format!("root: got {root}, expected {}", pivot.root).into());
                            }
                            events.push(SnapEvent::Built(root));
                        }
                        SnapAction::Done(_) => return Ok(built),
                    }
                }
            }
            if self.client.phase() == SnapPhase::Load && saved.elapsed() > SAVE_INTERVAL {
                self.client.save(&mut self.state)?;
                saved = Instant::now();
            }
            let (peer, ticket, answer, took) = self.answered.recv()?;
            events.push(SnapEvent::Answer {
                peer,
                ticket,
                answer,
                took,
            });
        }
    }
}

/// Asks over one connection what comes, one question after the other.
async fn ask(
    contact: &NodeContact,
    (peer, index): (PeerId, u8),
    mut asked: UnboundedReceiver<Asked>,
    answers: &Sender<Answered>,
) -> Result<(), Failure> {
    let mut entropy = Entropy::from_system()?;
    // Each has an address of its own.
    let source = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2 + index));
    let mut node = PlayedNode::join_with_snap(contact, source, &mut entropy).await?;
    while let Some((ticket, request)) = asked.recv().await {
        let begun = Instant::now();
        let answer = node.ask_snap(request).await?;
        answers.send((peer, ticket, answer, begun.elapsed()))?;
    }
    Ok(())
}
