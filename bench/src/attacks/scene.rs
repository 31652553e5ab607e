//! The node that is attacked, and an honest node beside it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use e2e::{Launch, RpcCallError, Vnode};
use network::{NodeContact, WireFamily};
use primitives::Enode;
use serde_json::{Value, json};

use super::{Attack, AttackSources};
use crate::Failure;

/// The password of the Stratum server.
const PASSWORD: &str = "a password that nobody guesses";
/// A boot node where nobody listens: it switches discovery on.
const NO_BOOT_NODE: &str = "enode://6f8a80d14311c39f35f516fa664deaaaa13e85b2f7493f37f6144d86991ec012\
    937307647bd3b9a82abe2974e1407241d54947bbb39763a4cac9f77166ad92a0@127.0.0.1:9";
/// `evm_mine` waits for a seal, which a busy machine finds late.
const TIME_FOR_SEALS: [&str; 2] = ["--rpc.timeout", "300"];
/// Places for peers.
const PEERS_MAX: &str = "60";
/// Longest time in which two nodes agree while nobody attacks.
const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause between two looks at the head of a node.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// The contact of the node that is attacked.
#[derive(Clone, Debug)]
pub struct AttackTarget {
    /// JSON-RPC over HTTP.
    pub rpc: SocketAddr,
    /// WebSockets, if they are served.
    pub ws: Option<SocketAddr>,
    /// Stratum, if it is served.
    pub stratum: Option<SocketAddr>,
    /// The node as a peer.
    pub contact: NodeContact,
    /// The kind of its network.
    pub family: WireFamily,
    /// The id of its network.
    pub network_id: u64,
    /// Its process.
    pub pid: u32,
    /// The addresses of attackers, witnesses and nodes.
    pub sources: AttackSources,
}

/// The nodes of an attack. They end when it is dropped.
#[derive(Debug)]
pub struct AttackScene {
    node: Vnode,
    honest: Option<Vnode>,
    target: AttackTarget,
}

/// Returns the result of `call`, which may block.
fn blocking<T>(call: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(call)
}

/// Starts a node with JSON-RPC at the address `at`.
fn start_node(at: &str, options: &[&str]) -> Vnode {
    let common = [
        "--rpcaddr",
        at,
        "--rpcapi",
        "mc,net,admin,evm",
        "--port",
        "0",
        "--maxpeers",
        PEERS_MAX,
    ];
    Launch::dev(common.into_iter().chain(options.iter().copied())).start()
}

/// The node as a peer, at the address of its JSON-RPC.
fn contact_of(node: &Vnode) -> Result<NodeContact, Failure> {
    let info = node.rpc("admin_nodeInfo", json!([]));
    let enode: Enode = info["enode"].as_str().ok_or("no enode")?.parse()?;
    let mut contact = NodeContact::from_enode(&enode).ok_or("an enode without an address")?;
    contact.ip = node.addresses().first().ok_or("no JSON-RPC")?.ip();
    Ok(contact)
}

impl AttackScene {
    /// Starts what `attack` needs. It must run on a runtime with several threads.
    ///
    /// # Errors
    /// If the nodes do not come together.
    ///
    /// # Panics
    /// If a node does not start.
    pub async fn start(attack: Attack, sources: AttackSources) -> Result<Self, Failure> {
        blocking(|| Self::start_now(attack, sources))
    }

    fn start_now(attack: Attack, sources: AttackSources) -> Result<Self, Failure> {
        let at = sources.node().to_string();
        let at = at.as_str();
        let (mut family, mut network_id) = (WireFamily::Mc, 100);
        let node = match attack {
            Attack::UnreadPings | Attack::Notifications => {
                let ws = ["--ws", "--wsport", "0", "--wsaddr", at];
                start_node(at, &[&ws[..], &TIME_FOR_SEALS].concat())
            }
            Attack::Passwords => {
                let stratum = ["--stratum", "--stratumport", "0", "--stratumaddr", at];
                let password = ["--stratum.password", PASSWORD];
                start_node(at, &[&stratum[..], &password[..]].concat())
            }
            Attack::ManyNodes => start_node(at, &["--bootnodes", NO_BOOT_NODE]),
            Attack::LostTransactions => {
                (family, network_id) = (WireFamily::Eth, 1);
                let options = ["--network", "classic", "--rpc", "--rpcport", "0"];
                let more = [
                    "--rpcaddr",
                    at,
                    "--rpcapi",
                    "mc,net,admin",
                    "--maxpeers",
                    PEERS_MAX,
                ];
                Launch::bare(options.into_iter().chain(more)).start()
            }
            _ => start_node(at, &[]),
        };
        let endpoint = |scheme: &str| {
            let endpoints = node.banner_values("endpoint");
            let mut found = endpoints.iter().filter_map(|value| value.strip_prefix(scheme));
            found.find_map(|address| address.parse().ok())
        };
        let target = AttackTarget {
            rpc: *node.addresses().first().ok_or("no JSON-RPC")?,
            ws: endpoint("ws://"),
            stratum: endpoint("stratum+tcp://"),
            contact: contact_of(&node)?,
            family,
            network_id,
            pid: node.id(),
            sources,
        };
        let honest = match attack {
            Attack::UnsealedBlocks => Some(start_node(&sources.honest().to_string(), &TIME_FOR_SEALS)),
            _ => None,
        };
        let scene = Self { node, honest, target };
        if attack == Attack::UnsealedBlocks {
            let contact = contact_of(scene.honest()?)?;
            scene.connect_to(&contact)?;
            // The first seal that is checked takes longer, because the node makes its light cache.
            scene.mine_honest_block()?;
            let agreed = scene.wait_for_agreement(AGREEMENT_TIMEOUT);
            agreed.ok_or("the nodes do not agree")?;
        }
        Ok(scene)
    }

    /// The contact of the node that is attacked.
    pub const fn target(&self) -> &AttackTarget {
        &self.target
    }

    fn honest(&self) -> Result<&Vnode, Failure> {
        self.honest.as_ref().ok_or_else(|| "no honest node".into())
    }

    /// Calls a method of the node that is attacked.
    ///
    /// # Errors
    /// If it has no result.
    pub fn call(&self, method: &str, params: Value) -> Result<Value, Failure> {
        // A connection that was idle for long may have ended.
        let call = || self.node.try_rpc(method, params.clone());
        let called = blocking(|| match call() {
            Err(RpcCallError::Transport(_)) => call(),
            called => called,
        });
        called.map_err(|error| error.to_string().into())
    }

    /// Lets the node that is attacked dial another one.
    ///
    /// # Errors
    /// If it refuses.
    pub fn connect_to(&self, contact: &NodeContact) -> Result<(), Failure> {
        self.call("admin_addPeer", json!([contact.to_enode().to_string()]))?;
        Ok(())
    }

    /// Lets the honest node make a block.
    ///
    /// # Errors
    /// If there is no such node, or it makes none.
    pub fn mine_honest_block(&self) -> Result<(), Failure> {
        let honest = self.honest()?;
        let mined = blocking(|| honest.try_rpc("evm_mine", json!([])));
        mined.map(drop).map_err(|error| error.to_string().into())
    }

    /// Waits until the node that is attacked has the head of the honest node, for at most
    /// `timeout`. Returns how long it took.
    pub fn wait_for_agreement(&self, timeout: Duration) -> Option<Duration> {
        let block = blocking(|| self.honest.as_ref().map(|honest| honest.head_block()))?;
        self.wait_for_head(&block["hash"], timeout)
    }

    /// Waits until the head of the node that is attacked has this hash, for at most `timeout`.
    /// Returns how long it took.
    pub fn wait_for_head(&self, hash: &Value, timeout: Duration) -> Option<Duration> {
        blocking(|| {
            let begun = Instant::now();
            while begun.elapsed() < timeout {
                let head = self.node.try_rpc("mc_getBlockByNumber", json!(["latest", false]));
                if head.is_ok_and(|head| head["hash"] == *hash) {
                    return Some(begun.elapsed());
                }
                std::thread::sleep(LOOK_INTERVAL);
            }
            None
        })
    }
}
