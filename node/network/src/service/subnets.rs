//! The networks of application chains (subnets): each has sockets, a table and peers of its own,
//! and carries only what is for its chain.
//!
//! [`SubnetKeeper`] starts and ends them as the head moves and as contracts ask for it
//! ([`super::called_subnets`]). Their nodes find each other through the
//! table of the chain's network: each asks the brothers that are closest to the subnet's key to
//! keep its enode, and asks them for those of others ([`meet`]). Source: docs/p2p.md, 5.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use chain::Chain;
use futures_util::future::join_all;
use parking_lot::Mutex;
use primitives::{Address, B512, Bytes};
use sha2::{Digest, Sha512};
use tokio::sync::watch;

use super::called_subnets::{CalledSubnets, asks_for_subnet};
use super::core::Core;
use super::handle::SubnetHandle;
use super::tasks::{NetworkSockets, NetworkTasks};
use super::{NetworkSettings, NetworkStartError, PeerReport};
use crate::discovery::DiscoveryHandle;
use crate::entropy::Entropy;
use crate::nat::find_gateway;

/// The ports of subnets, each for TCP and UDP.
pub(crate) const SUBNET_PORTS: RangeInclusive<u16> = 40333..=40998;
/// Subnets that run at a time. More wait.
pub(crate) const SUBNETS_RUNNING_MAX: usize = 64;
/// A subnet begins so many blocks before it carries anything.
pub(crate) const SUBNET_LEAD_BLOCKS: u64 = 100;
/// A subnet has one place for each of this many places of the chain's network, and one more.
const PEERS_RATIO: usize = 3;
/// A subnet has at least so many places.
const PEERS_MIN: usize = 5;
/// The interval at which due subnets are looked for.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Rounds in which a subnet that begins looks for nodes more often.
const FIRST_ROUNDS: u32 = 10;
/// Time between those.
const FIRST_INTERVAL: Duration = Duration::from_secs(3);
/// Time between two questions for nodes after that.
const FIND_INTERVAL: Duration = Duration::from_secs(60);
/// In one of so many of these rounds the enode is stored again.
const STORE_ROUNDS: u32 = 3;
/// First byte of the address of a chain in a message: the head of an RLP string of 20 bytes.
const ADDRESS_RLP_HEAD: u8 = 0x94;

/// A subnet of which this node is to be part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubnetPlan {
    /// The application chain.
    pub address: Address,
    /// The first block at which the subnet carries what is for the chain.
    pub block_start: u64,
    /// The first block at which it does not any more.
    pub block_end: u64,
}

impl SubnetPlan {
    /// The plan of a subnet that the contract asks for: at every head.
    const fn always(address: Address) -> Self {
        Self {
            address,
            block_start: 0,
            block_end: u64::MAX,
        }
    }

    /// Whether the node is part of the subnet at this head.
    const fn runs_at(&self, head: u64) -> bool {
        head.saturating_add(SUBNET_LEAD_BLOCKS) >= self.block_start && head < self.block_end
    }

    /// Whether messages and transactions for the chain go to the subnet at this head.
    const fn carries_at(&self, head: u64) -> bool {
        head >= self.block_start && head < self.block_end
    }
}

/// A subnet of which this node is part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubnetReport {
    /// The application chain.
    pub address: Address,
    /// The address at which its nodes connect and ask.
    pub listen: SocketAddr,
    /// The peers of the subnet.
    pub peers: Vec<PeerReport>,
}

/// The key under which nodes of a subnet are found: its name, and after it the beginning of the
/// SHA-512 of nothing.
fn subnet_key(address: &Address) -> B512 {
    static FILL: LazyLock<[u8; 64]> = LazyLock::new(|| Sha512::digest([]).into());
    let mut key = *FILL;
    let name = format!("{address:#x}");
    let (front, fill) = key.split_at_mut(name.len());
    front.copy_from_slice(name.as_bytes());
    fill.copy_from_slice(&FILL[..64 - name.len()]);
    B512::from(key)
}

/// The port that a subnet tries first. It is the same at each start: all subnets of a node have the
/// same id and the same Status, so nodes that remember the port of one must not reach another one
/// there.
fn first_port(address: &Address) -> u16 {
    let count = SUBNET_PORTS.end() - SUBNET_PORTS.start() + 1;
    let [.., high, low] = address.0.0;
    SUBNET_PORTS.start() + u16::from_be_bytes([high, low]) % count
}

/// The application chain that a message names, in either of the two forms.
pub(super) fn chain_of(subchain_id: &Bytes) -> Option<Address> {
    let address = match subchain_id.as_ref() {
        [ADDRESS_RLP_HEAD, address @ ..] if address.len() == 20 => address,
        address => address,
    };
    Address::try_from(address).ok()
}

struct RunningSubnet {
    plan: SubnetPlan,
    core: Arc<Core>,
    listen: SocketAddr,
}

/// The running subnets, for readers on any thread.
#[derive(Default)]
pub(super) struct RunningSubnets(Mutex<BTreeMap<Address, RunningSubnet>>);

impl RunningSubnets {
    /// The subnet that carries what is for the chain at `address`, if there is one at this head.
    pub(super) fn carrier(&self, address: &Address, head: u64) -> Option<Arc<Core>> {
        let running = self.0.lock();
        let subnet = running.get(address)?;
        subnet.plan.carries_at(head).then(|| Arc::clone(&subnet.core))
    }

    /// The time at which each of them has carried something.
    fn last_carried(&self) -> Vec<(Address, Instant)> {
        let running = self.0.lock();
        let carried = running
            .iter()
            .map(|(address, subnet)| (*address, subnet.core.last_carried()));
        carried.collect()
    }

    pub(super) fn reports(&self) -> Vec<SubnetReport> {
        let running = self.0.lock();
        let report = |(address, subnet): (&Address, &RunningSubnet)| SubnetReport {
            address: *address,
            listen: subnet.listen,
            peers: subnet.core.peers(),
        };
        running.iter().map(report).collect()
    }
}

pub(super) struct SubnetKeeper {
    core: Arc<Core>,
    chain: Chain,
    settings: NetworkSettings,
    values: Option<DiscoveryHandle>,
    plans: watch::Receiver<Vec<SubnetPlan>>,
    running: Arc<RunningSubnets>,
    called: Arc<Mutex<CalledSubnets>>,
    tasks: BTreeMap<Address, NetworkTasks>,
    entropy: Entropy,
    is_full: bool,
}

impl SubnetKeeper {
    /// A keeper for the subnets of the network of `core`. `values` is that network's discovery.
    /// Also returns what the handle of the network needs.
    pub(super) fn new(
        core: Arc<Core>,
        chain: Chain,
        settings: NetworkSettings,
        values: Option<DiscoveryHandle>,
        entropy: Entropy,
    ) -> (Self, SubnetHandle) {
        let (plans, planned) = watch::channel(Vec::new());
        let handle = SubnetHandle {
            plans,
            subnets: Arc::default(),
            called: Arc::default(),
        };
        let keeper = Self {
            core,
            chain,
            settings,
            values,
            plans: planned,
            running: Arc::clone(&handle.subnets),
            called: Arc::clone(&handle.called),
            tasks: BTreeMap::new(),
            entropy,
            is_full: false,
        };
        (keeper, handle)
    }

    /// Runs until `stop` says so. Then all subnets end.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            self.look().await;
            let changed = async {
                if self.plans.changed().await.is_err() {
                    // Nobody can change them any more.
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
                () = changed => {}
                _ = stop.changed() => break,
            }
        }
        self.running.0.lock().clear();
        // Side by side: each may wait for its router.
        let tasks = std::mem::take(&mut self.tasks);
        join_all(tasks.into_values().map(NetworkTasks::stop)).await;
    }

    /// Asks the contracts that must be asked now.
    async fn ask_contracts(&self) {
        let due = {
            let mut called = self.called.lock();
            for (address, at) in self.running.last_carried() {
                called.heard(&address, at);
            }
            called.due(Instant::now())
        };
        for address in due {
            let chain = self.chain.clone();
            let asked = tokio::task::spawn_blocking(move || asks_for_subnet(&chain, address));
            // A call that panics is no answer.
            let is_enabled = asked.await.unwrap_or(false);
            self.called.lock().answered(&address, is_enabled, Instant::now());
        }
    }

    /// Starts what is due, and ends what is over.
    async fn look(&mut self) {
        self.ask_contracts().await;
        let head = self.core.state.lock().hub.head();
        let plans = self.plans.borrow_and_update().clone();
        let planned = plans.into_iter().filter(|plan| plan.runs_at(head.number));
        let mut due: BTreeMap<_, _> = planned.map(|plan| (plan.address, plan)).collect();
        let called = self
            .called
            .lock()
            .enabled()
            .map(SubnetPlan::always)
            .collect::<Vec<_>>();
        due.extend(called.into_iter().map(|plan| (plan.address, plan)));
        let over: Vec<_> = self
            .tasks
            .keys()
            .filter(|address| !due.contains_key(*address))
            .copied()
            .collect();
        for address in over {
            self.end(&address).await;
            tracing::info!(subnet = %address, head = head.number, "left the network of an application chain");
        }
        for (address, plan) in due {
            if let Some(subnet) = self.running.0.lock().get_mut(&address) {
                subnet.plan = plan;
                // The head that the Status names.
                subnet.core.with_hub(|hub, now| hub.head_moved(head, now));
                continue;
            }
            if self.tasks.len() >= SUBNETS_RUNNING_MAX {
                if !std::mem::replace(&mut self.is_full, true) {
                    tracing::warn!("more than {SUBNETS_RUNNING_MAX} subnets are due; the others wait");
                }
                return;
            }
            match self.start(plan).await {
                Ok(listen) => {
                    tracing::info!(subnet = %address, %listen, "joined the network of an application chain");
                }
                Err(error) => tracing::warn!(subnet = %address, %error, "a subnet does not start"),
            }
        }
        self.is_full = false;
    }

    async fn start(&mut self, plan: SubnetPlan) -> Result<SocketAddr, NetworkStartError> {
        let (sockets, listen) = self.bind(&plan.address).await?;
        let main = &self.settings;
        let settings = NetworkSettings {
            client: String::new(),
            listen,
            has_discovery: sockets.discovery.is_some(),
            boot_nodes: Vec::new(),
            dns_lists: Vec::new(),
            static_nodes: Vec::new(),
            trusted_nodes: Vec::new(),
            peers_max: (main.peers_max / PEERS_RATIO + 1).max(PEERS_MIN),
            ..main.clone()
        };
        let (core, inboxes) = self.core.for_subnet(&settings, &mut self.entropy);
        let failed = |source| NetworkStartError::Listen {
            address: listen,
            source,
        };
        let (agreed, router) = (inboxes.agreed, Box::pin(find_gateway(settings.nat)));
        let mut tasks =
            NetworkTasks::start(&settings, &core, sockets, agreed, None, router, &mut self.entropy)
                .map_err(failed)?;
        if let (Some(own), Some(main)) = (tasks.values().cloned(), self.values.clone()) {
            tasks.add(tokio::spawn(meet(main, own, subnet_key(&plan.address))));
        }
        let listen = tasks.address();
        self.tasks.insert(plan.address, tasks);
        let running = RunningSubnet { plan, core, listen };
        self.running.0.lock().insert(plan.address, running);
        Ok(listen)
    }

    /// Opens sockets on the subnet's own port, or on the next free one.
    async fn bind(&self, subnet: &Address) -> Result<(NetworkSockets, SocketAddr), NetworkStartError> {
        let ip = self.settings.listen.ip();
        let first = first_port(subnet);
        let mut address = SocketAddr::new(ip, first);
        let source = io::Error::from(io::ErrorKind::AddrInUse);
        let mut failure = NetworkStartError::Listen { address, source };
        let ports = (first..=*SUBNET_PORTS.end()).chain(*SUBNET_PORTS.start()..first);
        for port in ports {
            address.set_port(port);
            match NetworkSockets::bind(address, self.values.is_some(), None).await {
                Ok(sockets) => return Ok((sockets, address)),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    async fn end(&mut self, address: &Address) {
        self.running.0.lock().remove(address);
        if let Some(tasks) = self.tasks.remove(address) {
            tasks.stop().await;
        }
    }
}

/// Lets the nodes of a subnet find each other, for ever. `main` is the discovery of the chain's
/// network, `own` the subnet's.
async fn meet(main: DiscoveryHandle, own: DiscoveryHandle, key: B512) {
    let mut round = 0;
    loop {
        let brothers = main.brothers(key).await;
        if !brothers.is_empty() {
            if round < FIRST_ROUNDS || round % STORE_ROUNDS == 0 {
                own.store_at(key, brothers.clone()).await;
            }
            own.find_values_at(key, brothers).await;
            round += 1;
        }
        let interval = if round < FIRST_ROUNDS {
            main.lookup(key).await;
            FIRST_INTERVAL
        } else {
            FIND_INTERVAL
        };
        let next = Instant::now() + interval;
        while Instant::now() < next {
            // Others store their enodes here. A node that comes later waits for no round.
            own.probe_all(main.newly_kept(key).await).await;
            tokio::time::sleep(FIRST_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_the_name_and_the_hash_of_nothing() {
        let key = subnet_key(&Address::repeat_byte(0xab));
        assert_eq!(&key[..42], format!("0x{}", "ab".repeat(20)).as_bytes());
        assert_eq!(key[42..46], [0xcf, 0x83, 0xe1, 0x35]);
    }

    #[test]
    fn a_subnet_has_a_port_of_its_own() {
        let ports = [0, 1, 0x0299, 0x029a, 0xffff].map(|end: u16| {
            let mut address = Address::repeat_byte(0xee);
            address[18..].copy_from_slice(&end.to_be_bytes());
            first_port(&address)
        });
        assert_eq!(ports, [40333, 40334, 40998, 40333, 40333 + 0xffff % 666]);
    }

    #[test]
    fn a_subnet_that_starts_below_block_100_runs_at_once() {
        let plan = |block_start, block_end| SubnetPlan {
            address: Address::ZERO,
            block_start,
            block_end,
        };
        let check = |plan: SubnetPlan, head, expected: (bool, bool)| {
            assert_eq!(
                (plan.runs_at(head), plan.carries_at(head)),
                expected,
                "{plan:?} at {head}"
            );
        };
        check(plan(5, u64::MAX), 0, (true, false));
        check(plan(5, u64::MAX), 5, (true, true));
        check(plan(150, 200), 49, (false, false));
        check(plan(150, 200), 50, (true, false));
        check(plan(150, 200), 199, (true, true));
        check(plan(150, 200), 200, (false, false));
        check(plan(u64::MAX, u64::MAX), u64::MAX - 1, (true, false));
    }

    #[test]
    fn messages_name_their_chain_in_two_forms() {
        let address = Address::repeat_byte(7);
        let long = Bytes::from([&[0x94][..], address.as_slice()].concat());
        assert_eq!(chain_of(&long), Some(address));
        assert_eq!(
            chain_of(&Bytes::copy_from_slice(address.as_slice())),
            Some(address)
        );
        for other in [
            Bytes::new(),
            Bytes::from(vec![1; 21]),
            Bytes::from(vec![0x94; 22]),
        ] {
            assert_eq!(chain_of(&other), None);
        }
    }
}
