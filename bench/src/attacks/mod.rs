//! Attacks on a running node by strangers, and how good its service is meanwhile.
//!
//! An attack has a scene of its own: a new `vnode`, and where it is needed an honest node beside
//! it. A client of JSON-RPC and a peer ask again and again during the attack, and the memory of the
//! node is read all the time. Each attack is bounded in time and in bytes, so that a node that
//! falls for it harms nobody else on the machine.
//!
//! | subject | module |
//! |---|---|
//! | the nodes, and where attackers come from | `scene`, `sources` |
//! | what a process uses | `process` |
//! | peers that the benchmark plays | `played` |
//! | who is served meanwhile | `witness` |
//! | attacks through JSON-RPC, WebSockets and Stratum | `requests` |
//! | attacks of peers | `gossip` |
//! | attacks on the synchronization and on discovery | `headers`, `pings` |
//! | a chain that others do not have yet | `honest_chain` |
//! | the figures, and what is wrong with them | `figures` |

mod figures;
mod gossip;
mod headers;
mod honest_chain;
mod pings;
mod played;
mod process;
mod requests;
mod scene;
mod sources;
#[cfg(test)]
mod tests;
mod witness;

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use network::testing::Entropy;

pub use figures::{AttackFigures, HonestTimes, MEMORY_OVER_IDLE_MAX, WITNESS_MEDIAN_MAX};
pub use played::{BLOCK_0, PlayedNode};
pub use process::{MemoryWatch, ProcessUse, machine_load};
pub use scene::{AttackScene, AttackTarget};
pub use sources::AttackSources;
pub use witness::{WitnessTimes, watch_as_peer, watch_by_rpc};

use crate::Failure;
use gossip::AttackMaterial;

/// The time for which the witnesses and the memory are watched after the attack.
const LATER_TIME: Duration = Duration::from_secs(1);

/// An attack by strangers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Attack {
    /// Ask for a signature of typed data with 1,375 types, each inside of the one before.
    NestedTypes,
    /// Ask for a signature of typed data with a type of 32,700 array suffixes.
    ArraySuffixes,
    /// Ask for a signature of typed data whose types form a graph with millions of paths.
    TypeGraph,
    /// Send WebSocket pings and never read the pongs.
    UnreadPings,
    /// Subscribe to logs on 300 connections, read nothing, and a block brings 23,200 logs.
    Notifications,
    /// Try passwords of Stratum, on many connections.
    Passwords,
    /// Send messages with 65,536 signatures each, leave, and come back with a new key.
    Signatures,
    /// Send blocks on the head without a seal, with 65,536 empty transactions and right roots.
    UnsealedBlocks,
    /// Two of them claim heavier chains, and give one fabricated header at a time, slowly.
    SlowHeaders,
    /// Send PINGs of 1,100 nodes from one address, and answer what these are asked.
    ManyNodes,
    /// Send messages of application chains of 10 MiB, and another peer reads nothing.
    ChainMessages,
    /// 16 of them announce as many transactions as they may, and send none.
    LostTransactions,
}

impl Attack {
    /// All attacks.
    pub const ALL: [Self; 12] = [
        Self::NestedTypes,
        Self::ArraySuffixes,
        Self::TypeGraph,
        Self::UnreadPings,
        Self::Notifications,
        Self::Passwords,
        Self::Signatures,
        Self::UnsealedBlocks,
        Self::SlowHeaders,
        Self::ManyNodes,
        Self::ChainMessages,
        Self::LostTransactions,
    ];

    /// Whether the attackers are peers, or want to be.
    pub const fn is_of_peers(self) -> bool {
        matches!(
            self,
            Self::Signatures
                | Self::UnsealedBlocks
                | Self::SlowHeaders
                | Self::ManyNodes
                | Self::ChainMessages
                | Self::LostTransactions
        )
    }

    /// The name, as on the command line.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }

    /// The attacks with these names; `all` are those for which `is_of_kind` holds.
    ///
    /// # Errors
    /// For a name that no attack has.
    pub fn named(names: &[String], is_of_kind: impl Fn(Self) -> bool) -> Result<Vec<Self>, Failure> {
        let mut attacks = Vec::new();
        for name in names {
            match name.as_str() {
                "all" => attacks.extend(Self::ALL.into_iter().filter(|attack| is_of_kind(*attack))),
                name => attacks.push(<Self as ValueEnum>::from_str(name, false)?),
            }
        }
        Ok(attacks)
    }

    /// Returns the time for which the attack runs.
    const fn time(self) -> Duration {
        Duration::from_secs(match self {
            Self::NestedTypes | Self::ArraySuffixes | Self::Passwords => 3,
            Self::TypeGraph | Self::Notifications => 5,
            Self::UnreadPings | Self::Signatures | Self::ChainMessages => 10,
            Self::SlowHeaders => 15,
            _ => 8,
        })
    }

    /// Runs the attack in a scene of its own, for `time` if it is given.
    ///
    /// # Errors
    /// If the scene cannot be prepared. What happens to the attackers is no error.
    ///
    /// # Panics
    /// If a node does not start.
    pub async fn run(self, sources: AttackSources, time: Option<Duration>) -> Result<AttackFigures, Failure> {
        let scene = AttackScene::start(self, sources).await?;
        let target = scene.target().clone();
        let material = gossip::prepare(self, &target).await?;
        let before = tokio::task::block_in_place(machine_load);
        let idle_use = ProcessUse::read(target.pid)?;
        let end = Instant::now() + time.unwrap_or_else(|| self.time());
        let memory = MemoryWatch::start(target.pid);
        let by_rpc = on_own_thread(watch_by_rpc(target.clone(), end + LATER_TIME));
        let entropy = Entropy::from_system()?;
        let as_peer = on_own_thread(watch_as_peer(target.clone(), entropy, end + LATER_TIME));
        let done = self.attack(&scene, material, end).await?;
        let (by_rpc, as_peer) = tokio::task::block_in_place(|| (by_rpc.join(), as_peer.join()));
        let witnesses = by_rpc
            .ok()
            .and_then(Result::ok)
            .zip(as_peer.ok().and_then(Result::ok));
        let (by_rpc, as_peer) = witnesses.ok_or("a witness has ended")?;
        let (peak_kib, has_died) = memory.end();
        Ok(AttackFigures {
            attack: self,
            load: before.max(tokio::task::block_in_place(machine_load)),
            idle_kib: idle_use.memory_kib,
            peak_kib,
            later_kib: ProcessUse::read(target.pid).map_or(0, |used| used.memory_kib),
            has_died,
            by_rpc,
            as_peer,
            done: done.count,
            judged: done.judged,
            honest: done.honest,
        })
    }

    async fn attack(
        self,
        scene: &AttackScene,
        material: AttackMaterial,
        end: Instant,
    ) -> Result<AttackDone, Failure> {
        let target = scene.target();
        Ok(match self {
            Self::NestedTypes | Self::ArraySuffixes | Self::TypeGraph => {
                requests::sign_typed_data(self, target, end).await
            }
            Self::UnreadPings => requests::ping_without_reading(target, end).await,
            Self::Notifications => requests::subscribe_without_reading(scene, end).await?,
            Self::Passwords => requests::guess_passwords(target, end).await,
            Self::Signatures => gossip::send_signatures(target, &material, end).await?,
            Self::UnsealedBlocks => gossip::send_unsealed_blocks(scene, material, end).await?,
            Self::ChainMessages => gossip::send_chain_messages(target, &material, end).await?,
            Self::LostTransactions => gossip::lose_announcements(target, material, end).await?,
            Self::SlowHeaders => headers::give_headers_slowly(scene, &material, end).await?,
            Self::ManyNodes => pings::send_pings_of_many(target, end).await?,
        })
    }
}

/// Runs a witness on a thread of its own, so that no attacker keeps it waiting.
fn on_own_thread<T: Send + 'static>(
    witness: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<std::io::Result<T>> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(runtime.block_on(witness))
    })
}

/// The work that attackers have done.
#[derive(Debug, Default)]
struct AttackDone {
    /// The number of times.
    count: u64,
    /// The number of their guesses that were judged.
    judged: Option<u64>,
    /// The times in which honest ones were served.
    honest: Option<HonestTimes>,
}

impl AttackDone {
    fn times(count: u64) -> Self {
        Self {
            count,
            ..Self::default()
        }
    }
}

/// Runs attacks one after the other, each for `time` if it is given, and prints their figures.
///
/// # Errors
/// As [`Attack::run`].
///
/// # Panics
/// If a node does not start.
pub fn run_all(attacks: &[Attack], time: Option<Duration>) -> Result<(), Failure> {
    // The program `vnode` is built before this program leaves the network of the machine.
    e2e::vnode_path();
    let sources = AttackSources::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    println!("{}", AttackFigures::HEAD);
    for attack in attacks {
        let figures = runtime.block_on(runtime.spawn(attack.run(sources, time)))??;
        println!("{figures}");
        for fault in figures.faults() {
            println!("    {}: {fault}", attack.name());
        }
    }
    Ok(())
}
