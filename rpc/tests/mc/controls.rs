//! Replacements for the other parts of the process, for the node under test. They accept every
//! order and record it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use primitives::{Address, B256, B512, Enode, Transaction, U256};
use rpc::{
    ControlError, ControlFuture, ListenerControl, ListenerError, ListenerRequest, MinerControl,
    NetworkControl, Peer, PeerMeasures, ScsServiceControl, Subnet,
};

/// Searchers that are started and stopped.
#[derive(Default)]
pub(crate) struct Miner {
    /// The number of threads of the last start, until the next stop.
    pub(crate) running: Mutex<Option<Option<usize>>>,
}

impl MinerControl for Miner {
    fn hashrate(&self) -> f64 {
        1000.75
    }

    fn start(&self, threads: Option<usize>) -> Result<(), ControlError> {
        if threads == Some(usize::MAX) {
            return Err("cannot start so many threads".into());
        }
        *self.running.lock() = Some(threads);
        Ok(())
    }

    fn stop(&self) {
        *self.running.lock() = None;
    }
}

/// A listener that is opened and closed.
#[derive(Default)]
pub(crate) struct Listener {
    /// The request that opened the listener, while it is open.
    pub(crate) open: Mutex<Option<ListenerRequest>>,
}

impl ListenerControl for Listener {
    fn start(&self, request: ListenerRequest) -> ControlFuture<'_, Result<(), ListenerError>> {
        Box::pin(async move {
            let mut open = self.open.lock();
            if let Some(open) = &*open {
                return Err(ListenerError::Running(format!("{}:{}", open.host, open.port)));
            }
            *open = Some(request);
            Ok(())
        })
    }

    fn is_exposed(&self) -> bool {
        let open = self.open.lock();
        open.as_ref().is_some_and(|request| request.host == "0.0.0.0")
    }

    fn stop(&self) -> ControlFuture<'_, bool> {
        Box::pin(async move { self.open.lock().take().is_some() })
    }
}

/// A service for application chains that takes each transaction once.
#[derive(Default)]
pub(crate) struct ScsService {
    /// The transactions that it has taken.
    pub(crate) taken: Mutex<Vec<Transaction>>,
}

impl ScsServiceControl for ScsService {
    fn port(&self) -> u16 {
        50_062
    }

    fn submit(&self, transaction: &Transaction) -> Result<B256, ControlError> {
        let mut taken = self.taken.lock();
        if taken.contains(transaction) {
            return Err("Marked transactions".into());
        }
        taken.push(transaction.clone());
        Ok(transaction.hash())
    }
}

/// The text of a node record, as [`Network`] reads it.
pub(crate) const RECORD: &str = "enr:-a-record";

/// A network with one peer.
#[derive(Default)]
pub(crate) struct Network {
    nodes: Mutex<Vec<Enode>>,
    trusted: Mutex<Vec<Enode>>,
    subnets: Mutex<Vec<Subnet>>,
    /// Whether the peer is sent transactions.
    pub(crate) is_reached: AtomicBool,
}

impl NetworkControl for Network {
    fn enode(&self) -> Enode {
        Enode {
            id: B512::repeat_byte(0x0d),
            host: "[::]".to_owned(),
            port: 30333,
            discovery_port: 0,
            query: vec![("servicecfgport".to_owned(), "50062".to_owned())],
        }
    }

    fn record(&self) -> Option<String> {
        Some("enr:-the-record-of-this-node".to_owned())
    }

    fn read_node(&self, text: &str) -> Result<Enode, ControlError> {
        // Records are read by the package `network`; here one text stands for all.
        if text == RECORD {
            return Ok(Enode {
                id: B512::repeat_byte(0x0c),
                ..self.enode()
            });
        }
        Ok(text.parse::<Enode>()?)
    }

    fn listen_address(&self) -> Option<String> {
        Some("[::]:30333".to_owned())
    }

    fn peers(&self) -> Vec<Peer> {
        vec![Peer {
            id: B512::repeat_byte(0x0e),
            enode: Enode {
                id: B512::repeat_byte(0x0e),
                host: "10.0.0.2".to_owned(),
                port: 40000,
                discovery_port: 40000,
                query: Vec::new(),
            },
            record: Some("enr:-the-record-of-the-peer".to_owned()),
            name: "Other/v1.0.0".to_owned(),
            capabilities: vec!["mc/63".to_owned()],
            local_address: "10.0.0.1:30333".to_owned(),
            remote_address: "10.0.0.2:40000".to_owned(),
            is_inbound: true,
            is_static: false,
            is_trusted: true,
            protocol: "mc".to_owned(),
            version: 63,
            head: B256::repeat_byte(0x0f),
            total_difficulty: U256::from(131_072),
            measures: PeerMeasures {
                slot: 2,
                since: 1_700_000_000,
                messages_in: 3,
                messages_out: 4,
                bytes_in: 500,
                bytes_out: 600,
                round_trip: Some(Duration::from_millis(250)),
                late_answers: 1,
                faults: 0,
            },
        }]
    }

    fn wait_until_told(&self, _position: u64, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while !self.is_reached.load(Ordering::Relaxed) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.is_reached.load(Ordering::Relaxed)
    }

    fn add_peer(&self, node: &Enode) -> Result<(), ControlError> {
        self.nodes.lock().push(node.clone());
        Ok(())
    }

    fn remove_peer(&self, node: &Enode) -> Result<bool, ControlError> {
        let mut nodes = self.nodes.lock();
        let before = nodes.len();
        nodes.retain(|other| other.id != node.id);
        Ok(nodes.len() < before)
    }

    fn add_trusted_peer(&self, node: &Enode) -> Result<(), ControlError> {
        self.trusted.lock().push(node.clone());
        Ok(())
    }

    fn remove_trusted_peer(&self, node: &Enode) -> Result<bool, ControlError> {
        let mut nodes = self.trusted.lock();
        let before = nodes.len();
        nodes.retain(|other| other.id != node.id);
        Ok(nodes.len() < before)
    }

    fn add_subnet(&self, address: Address, block_start: u64) -> Result<(), ControlError> {
        self.subnets.lock().push(Subnet {
            address,
            block_start,
            block_end: u64::MAX,
            peers: String::new(),
        });
        Ok(())
    }

    fn remove_subnet(&self, address: Address, block_end: u64) -> Result<bool, ControlError> {
        let mut subnets = self.subnets.lock();
        let found = subnets.iter_mut().find(|subnet| subnet.address == address);
        Ok(found.map(|subnet| subnet.block_end = block_end).is_some())
    }

    fn subnets(&self, head: u64) -> Vec<Subnet> {
        let subnets = self.subnets.lock();
        subnets
            .iter()
            .filter(|subnet| subnet.block_end > head)
            .cloned()
            .collect()
    }
}
