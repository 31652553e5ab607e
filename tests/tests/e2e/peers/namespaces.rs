//! Nodes in network namespaces: a partition that drops packets, a link that loses and delays them,
//! and nodes that are killed. It needs root and the program `ip`; elsewhere it is skipped, and says
//! why.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use e2e::call::Caller;
use e2e::wait::{note, wait_for};
use e2e::{quantity, vnode_path};
use primitives::Enode;
use serde_json::{Value, json};
use tempfile::TempDir;

const NODES: u8 = 3;
const RPC_PORT: u16 = 8545;
const PEER_PORT: u16 = 30401;

/// Runs `ip` or `tc`.
fn run(program: &str, arguments: &str) -> Result<(), String> {
    let words = arguments.split_whitespace();
    let output = Command::new(program)
        .args(words)
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {arguments}: {}", error.trim()))
}

fn ip(arguments: &str) -> Result<(), String> {
    run("ip", arguments)
}

/// A bridge, and namespaces that are connected by it. Dropping it removes all of them.
struct Namespaces {
    mark: u32,
}

impl Namespaces {
    fn make() -> Result<Self, String> {
        let own = Self {
            mark: std::process::id() % 10_000,
        };
        let bridge = own.bridge();
        ip(&format!("link add {bridge} type bridge"))?;
        ip(&format!("addr add {}/24 dev {bridge}", own.address(254)))?;
        ip(&format!("link set {bridge} up"))?;
        for node in 1..=NODES {
            let (name, link) = (own.name(node), own.link(node));
            ip(&format!("netns add {name}"))?;
            ip(&format!("link add {link} type veth peer name eth0 netns {name}"))?;
            ip(&format!("link set {link} master {bridge} up"))?;
            ip(&format!("-n {name} addr add {}/24 dev eth0", own.address(node)))?;
            ip(&format!("-n {name} link set eth0 up"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        Ok(own)
    }

    fn bridge(&self) -> String {
        format!("vtb{}", self.mark)
    }

    fn name(&self, node: u8) -> String {
        format!("vt{}n{node}", self.mark)
    }

    fn link(&self, node: u8) -> String {
        format!("vt{}l{node}", self.mark)
    }

    /// The network differs from run to run.
    const fn address(&self, node: u8) -> Ipv4Addr {
        let [.., high, low] = self.mark.to_be_bytes();
        Ipv4Addr::new(10, 200 + high % 50, low, node)
    }

    /// Packets between these nodes are dropped, or are not any more.
    fn part(&self, one: u8, other: u8, is_parted: bool) {
        let verb = if is_parted { "add" } else { "del" };
        for (from, to) in [(one, other), (other, one)] {
            let (name, to) = (self.name(from), self.address(to));
            ip(&format!("-n {name} route {verb} blackhole {to}/32")).expect("a route");
        }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for node in 1..=NODES {
            // Links that were not made cannot be removed.
            let _ = ip(&format!("link del {}", self.link(node)));
            let _ = ip(&format!("netns del {}", self.name(node)));
        }
        let _ = ip(&format!("link del {}", self.bridge()));
    }
}

/// A node in a namespace.
struct NamespaceNode {
    child: Child,
    caller: Caller,
}

impl NamespaceNode {
    fn start(namespaces: &Namespaces, node: u8, home: &TempDir) -> Self {
        let data: PathBuf = home.path().join(node.to_string());
        let child = Command::new("ip")
            .args(["netns", "exec", &namespaces.name(node)])
            .arg(vnode_path())
            .args([
                "--dev",
                "--rpc",
                "--rpcaddr",
                "0.0.0.0",
                "--rpcvhosts",
                "*",
                "--ipcdisable",
            ])
            .args(["--rpcapi", "mc,net,admin,miner", "--minerthreads", "1"])
            .args([
                "--port",
                &PEER_PORT.to_string(),
                "--rpcport",
                &RPC_PORT.to_string(),
            ])
            .arg("--datadir")
            .arg(data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a process");
        let address = SocketAddr::from((namespaces.address(node), RPC_PORT));
        let started = Self {
            child,
            caller: Caller::new(address),
        };
        wait_for("an answer of the node", || {
            started.caller.try_rpc("mc_blockNumber", json!([])).ok()
        });
        started
    }

    fn head(&self) -> (u128, Value) {
        let block = self.caller.rpc("mc_getBlockByNumber", json!(["latest", false]));
        (quantity(&block["number"]), block["hash"].clone())
    }

    fn enode(&self, namespaces: &Namespaces, node: u8) -> String {
        let info = self.caller.rpc("admin_nodeInfo", json!([]));
        let enode: Enode = info["enode"].as_str().expect("a URL").parse().expect("an enode");
        let enode = Enode {
            host: namespaces.address(node).to_string(),
            query: Vec::new(),
            ..enode
        };
        enode.to_string()
    }

    fn mine(&self, blocks: u128) {
        let goal = self.head().0 + blocks;
        self.caller.rpc("miner_start", json!([1]));
        wait_for("the blocks", || (self.head().0 >= goal).then_some(()));
        self.caller.rpc("miner_stop", json!([]));
    }
}

impl Drop for NamespaceNode {
    fn drop(&mut self) {
        // SIGKILL: as a machine that fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_for_agreement(nodes: &[&NamespaceNode]) {
    wait_for("the same head", || {
        let heads: Vec<_> = nodes.iter().map(|node| node.head()).collect();
        heads.iter().all(|head| *head == heads[0]).then_some(())
    });
}

#[test]
fn nodes_in_namespaces_agree_after_partitions_losses_and_kills() {
    let namespaces = match Namespaces::make() {
        Ok(namespaces) => namespaces,
        Err(reason) => return note(&format!("skipped: no network namespaces: {reason}")),
    };
    let home = tempfile::tempdir().expect("a folder");
    let start = |node| NamespaceNode::start(&namespaces, node, &home);
    let (one, two, three) = (start(1), start(2), start(3));
    for (from, to, number) in [(&one, &two, 2), (&two, &three, 3), (&three, &one, 1)] {
        let url = to.enode(&namespaces, number);
        assert_eq!(from.caller.rpc("admin_addPeer", json!([url])), true);
    }
    one.mine(2);
    wait_for_agreement(&[&one, &two, &three]);

    // The third node is alone for a while.
    namespaces.part(1, 3, true);
    namespaces.part(2, 3, true);
    one.mine(4);
    three.mine(2);
    wait_for_agreement(&[&one, &two]);
    let heavier = one.head();
    assert_ne!(three.head(), heavier);
    namespaces.part(1, 3, false);
    namespaces.part(2, 3, false);
    wait_for("the heavier chain at the third node", || {
        (three.head() == heavier).then_some(())
    });

    // A link that loses and delays packets, if the system has such links.
    let lossy = format!(
        "qdisc add dev {} root netem loss 10% delay 30ms",
        namespaces.link(2)
    );
    if let Err(reason) = run("tc", &lossy) {
        note(&format!("no packets are lost or delayed: {reason}"));
    }
    // A node that is killed goes on where it was.
    let before = two.head();
    drop(two);
    three.mine(2);
    let two = start(2);
    assert!(two.head().0 >= before.0, "no block is lost");
    wait_for_agreement(&[&one, &two, &three]);
}
