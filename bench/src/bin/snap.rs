//! The rate of imports alone, and beside peers that ask for accounts of the state all the time.
//!
//! The node is in this process: a store on a disk, the chain's writer, the network on loopback. The
//! peers have real connections with `snap/1`. Two threads import, as a synchronization does: one
//! checks bodies and recovers senders, the writer executes. Seals are not checked. Sections of the
//! same chain take turns, without and with the peers, and the median of each kind counts.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use bench::attacks::PlayedNode;
use bench::network_node::{open_chain, start_network};
use bench::{CHAIN_ID, Failure, SENDERS, chain_spec, next_block, receiver, receiver_of, sender_key};
use chain::genesis::ensure_genesis;
use chain::import::Importer;
use chain::rules::seal::SealCheck;
use chain::spec::GenesisAccount;
use chain::{Chain, ChainSpec};
use clap::Parser;
use network::NodeContact;
use network::testing::{AccountRangeRequest, Entropy, SnapMessage, SyncTarget, contact_of};
use primitives::{B256, Block, SecretKey, TxForm, U256, UnsignedTransaction};
use store::{Store, StoreOptions};

/// Enough gas for any block here.
const GAS_LIMIT: u64 = 100_000_000;
/// Blocks that are imported together.
const RUN: usize = 64;
/// Runs that wait for the writer.
const RUNS_READY: usize = 4;
/// Bytes that a question asks for.
const ASKED_BYTES: u64 = 512 << 10;
/// An asker that has nothing to do looks again after this time.
const PAUSE: Duration = Duration::from_millis(2);

/// Imports beside peers that ask for the state.
#[derive(Debug, Parser)]
struct Options {
    /// Accounts of the state.
    #[arg(long, default_value_t = 100_000)]
    accounts: u64,
    /// Blocks of a section.
    #[arg(long, default_value_t = 512)]
    blocks: usize,
    /// Transfers in a block.
    #[arg(long, default_value_t = 50)]
    transfers: u64,
    /// Peers that ask.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=250))]
    askers: u8,
    /// Accounts a second that all askers want together; 0 for as many as come. At the default, 86
    /// million accounts take 27 minutes: 128 blocks of Ethereum Classic.
    #[arg(long, default_value_t = 53_000)]
    wanted: u64,
    /// Sections of each kind.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Folder for the database [default: the folder for temporary files]
    #[arg(long)]
    directory: Option<PathBuf>,
}

fn main() -> Result<(), Failure> {
    let options = Options::parse();
    let keys = (0..SENDERS).map(sender_key).collect::<Result<Vec<_>, _>>()?;
    let spec = Arc::new(spec(&options, &keys)?);
    let sections = make_sections(&options, &spec, &keys)?;
    println!(
        "{} accounts, {} sections of {} blocks with {} transfers, {} askers",
        options.accounts,
        sections.len(),
        options.blocks,
        options.transfers,
        options.askers
    );

    let parent = options.directory.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::tempdir_in(&parent)?;
    let store = Store::open(folder.path(), &StoreOptions::default())?;
    ensure_genesis(&store, &spec)?;
    let chain = open_chain(store, &spec, SealCheck::Off)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let service = runtime.block_on(start_network(&chain, folder.path(), Vec::new()))?;
    let contact = contact_of(service.handle());
    let asks = Arc::new(AtomicBool::new(false));
    let served = Arc::new(AtomicU64::new(0));
    // The askers take time of the same processors, on a thread of their own.
    let askers = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let pace = match options.wanted {
        0 => None,
        wanted => Some(f64::from(options.askers) / wanted as f64),
    };
    for index in 0..options.askers {
        let (chain, asks, served) = (chain.clone(), asks.clone(), served.clone());
        let first = (usize::from(index) * 256 / usize::from(options.askers)) as u8;
        askers.spawn(async move {
            if let Err(error) = ask(&contact, (index, first), pace, &chain, &asks, &served).await {
                eprintln!("asker {index}: {error}");
            }
        });
    }

    let (mut alone, mut beside, mut accounts) = (Vec::new(), Vec::new(), Vec::new());
    for (index, section) in sections.into_iter().enumerate() {
        let is_beside = index % 2 == 1;
        asks.store(is_beside, Ordering::Release);
        let (before, begun) = (served.load(Ordering::Acquire), Instant::now());
        let blocks = section.len();
        import(&chain, section)?;
        let seconds = begun.elapsed().as_secs_f64();
        let rate = blocks as f64 / seconds;
        if is_beside {
            beside.push(rate);
            accounts.push((served.load(Ordering::Acquire) - before) as f64 / seconds);
        } else {
            alone.push(rate);
        }
    }
    let (alone, beside, accounts) = (median(alone), median(beside), median(accounts));
    println!("alone       {alone:>8.0} blocks/s");
    println!(
        "with askers {beside:>8.0} blocks/s, {:+.1} %, and {accounts:.0} accounts/s are served",
        (beside / alone - 1.0) * 100.0
    );
    askers.shutdown_background();
    runtime.block_on(service.stop());
    chain.stop();
    Ok(())
}

fn spec(options: &Options, keys: &[SecretKey]) -> Result<ChainSpec, Failure> {
    let mut spec = chain_spec(GAS_LIMIT)?;
    let mut give = |address, balance| {
        let account = GenesisAccount {
            balance,
            ..Default::default()
        };
        spec.genesis.alloc.insert(address, account);
    };
    for index in 0..options.accounts {
        give(receiver(index), U256::from(1));
    }
    for key in keys {
        give(key.address(), U256::from(10).pow(U256::from(27)));
    }
    Ok(spec)
}

fn make_sections(
    options: &Options,
    spec: &Arc<ChainSpec>,
    keys: &[SecretKey],
) -> Result<Vec<Vec<Block>>, Failure> {
    let store = Store::in_memory()?;
    ensure_genesis(&store, spec)?;
    let importer = Importer::new(store.clone(), spec.clone(), SealCheck::Off);
    let mut sent = 0;
    let mut block = || -> Result<Block, Failure> {
        let transfers = (0..options.transfers).map(|_| {
            let unsigned = UnsignedTransaction {
                tx_nonce: sent / SENDERS,
                gas_price: U256::from(20_000_000_000_u64),
                gas: 21_000,
                to: Some(receiver_of(sent, options.accounts)),
                value: U256::from(1),
                ..Default::default()
            };
            let signed = unsigned.sign(&keys[(sent % SENDERS) as usize], CHAIN_ID, TxForm::Ethereum);
            sent += 1;
            signed
        });
        let block = next_block(spec, &store, transfers.collect())?;
        importer.import(&block, None)?;
        Ok(block)
    };
    let mut section = |_| (0..options.blocks).map(|_| block()).collect();
    (0..2 * options.rounds).map(&mut section).collect()
}

/// Imports blocks as a synchronization does: while some are executed, the next are prepared.
fn import(chain: &Chain, mut blocks: Vec<Block>) -> Result<(), Failure> {
    std::thread::scope(|scope| {
        let (sender, ready) = sync_channel(RUNS_READY);
        scope.spawn(move || {
            while !blocks.is_empty() {
                let rest = blocks.split_off(RUN.min(blocks.len()));
                let run = std::mem::replace(&mut blocks, rest);
                let prepared = chain
                    .prepare_blocks(run)
                    .map_err(|refusal| format!("{refusal:?}"));
                if sender.send(prepared).is_err() {
                    return;
                }
            }
        });
        for prepared in ready {
            let prepared: Vec<_> = prepared?.into_iter().map(Arc::new).collect();
            let count = prepared.len();
            let stored = chain.import_many(prepared)?.stored;
            if stored != count {
                return Err(format!("{stored} of {count} blocks were stored").into());
            }
        }
        Ok(())
    })
}

/// Asks for all accounts of the head's state, again and again. The asker has a number, and begins
/// at hashes with the byte `first`. It takes at least so many seconds for each account, if there is
/// a `pace`.
async fn ask(
    contact: &NodeContact,
    (index, first): (u8, u8),
    pace: Option<f64>,
    chain: &Chain,
    asks: &AtomicBool,
    served: &AtomicU64,
) -> Result<(), Failure> {
    let mut entropy = Entropy::from_system()?;
    // Each has an address of its own.
    let source = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2 + index));
    let mut peer = PlayedNode::join_with_snap(contact, source, &mut entropy).await?;
    let mut origin = B256::with_last_byte(1);
    origin.0[0] = first;
    loop {
        if !asks.load(Ordering::Acquire) {
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        let asked = Instant::now();
        let request = AccountRangeRequest {
            root: chain.view()?.head().header.state_root,
            origin,
            limit: B256::repeat_byte(0xff),
            bytes: ASKED_BYTES,
        };
        let answer = peer.ask_snap(SnapMessage::GetAccountRange(1, request)).await?;
        let SnapMessage::AccountRange(_, range) = answer else {
            return Err("another answer".into());
        };
        served.fetch_add(range.accounts.len() as u64, Ordering::AcqRel);
        origin = match range.accounts.last() {
            Some((last, _)) => B256::from(U256::from_be_bytes(last.0).saturating_add(U256::from(1))),
            None => B256::ZERO,
        };
        if let Some(pace) = pace {
            let least = Duration::from_secs_f64(range.accounts.len() as f64 * pace);
            tokio::time::sleep(least.saturating_sub(asked.elapsed())).await;
        }
    }
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}
