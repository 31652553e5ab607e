//! Ten nodes that form a line, a ring or a mesh, and of which one or several make blocks: all of
//! them end with the same head. Over real connections, in this process.

use std::time::{Duration, Instant};

use e2e::wait::{FairClock, wait_within};
use network::testing::Entropy;
use store::Store;
use tokio::runtime::Runtime;

use crate::peers::in_process::InProcess;
use crate::peers::support::runtime;

const NODES: usize = 10;
/// Blocks of the first node before anybody knows it.
const FIRST_BLOCKS: usize = 700;
/// Blocks that one node makes at once.
const BLOCKS_OF_ONE: usize = 60;
/// Blocks that each of several nodes makes at once.
const BLOCKS_OF_SEVERAL: usize = 30;
/// Longest time until all have the same head.
const AGREEMENT_TIME: Duration = Duration::from_secs(20);

/// The shape of the connections.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Each with the next one.
    Line,
    /// Each with the next one, and the last with the first.
    Ring,
    /// Each with three earlier ones, chosen at random from this seed.
    Random(u8),
}

impl Shape {
    /// The pairs of nodes: the first dials the second.
    fn links(self) -> Vec<(usize, usize)> {
        let line = (1..NODES).map(|node| (node, node - 1));
        match self {
            Self::Line => line.collect(),
            Self::Ring => line.chain([(0, NODES - 1)]).collect(),
            Self::Random(seed) => {
                let mut entropy = Entropy::from_seed([seed; 32]);
                let mut links = Vec::new();
                for node in 1..NODES {
                    let mut earlier: Vec<_> = (0..node).collect();
                    entropy.shuffle(&mut earlier);
                    links.extend(earlier.into_iter().take(3).map(|other| (node, other)));
                }
                links
            }
        }
    }
}

struct Mesh {
    runtime: Runtime,
    nodes: Vec<InProcess>,
    shape: Shape,
}

impl Mesh {
    fn start(shape: Shape) -> Self {
        let runtime = runtime();
        let node = |index: usize| {
            let store = Store::in_memory().expect("a store in memory");
            InProcess::start(&runtime, 0x10 + index as u8, store)
        };
        let nodes = (0..NODES).map(node).collect();
        Self {
            runtime,
            nodes,
            shape,
        }
    }

    fn connect(&self) {
        let links = self.shape.links();
        for (from, to) in &links {
            assert!(self.nodes[*from].network().add_static(self.nodes[*to].contact()));
        }
        wait_within(AGREEMENT_TIME, "all connections", || {
            let peers: usize = self.nodes.iter().map(|node| node.network().peer_count()).sum();
            (peers == links.len() * 2).then_some(())
        });
    }

    fn heads(&self) -> Vec<(u64, String)> {
        let head = |node: &InProcess| {
            let view = node.chain.view().expect("a view");
            (view.head_number(), view.head_hash().to_string()[..8].to_owned())
        };
        self.nodes.iter().map(head).collect()
    }

    /// Waits until all have the head of `leader`.
    fn agree_with(&self, leader: usize, what: &str) {
        let begun = Instant::now();
        let mut clock = FairClock::start();
        let goal = self.nodes[leader].head();
        while !self.nodes.iter().all(|node| node.head() == goal) {
            assert!(
                clock.elapsed() < AGREEMENT_TIME,
                "{:?}, {what}: no agreement with node {leader}: {:?}",
                self.shape,
                self.heads()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        println!("{:?}, {what}: agreement after {:?}", self.shape, begun.elapsed());
    }

    /// The heaviest makes a block, and all follow it.
    fn settle(&self, what: &str) {
        let weight = |index: &usize| {
            let view = self.nodes[*index].chain.view().expect("a view");
            view.head().total_difficulty
        };
        let leader = (0..NODES).max_by_key(weight).expect("nodes");
        self.nodes[leader].mine();
        self.agree_with(leader, what);
    }

    fn stop(self) {
        for node in self.nodes {
            node.stop(&self.runtime);
        }
    }
}

fn all_agree(shape: Shape) {
    let mesh = Mesh::start(shape);
    // The first has a chain before anybody knows it: so many blocks that the others get it in
    // parts, some of them from a node that has only a part itself.
    for _ in 0..FIRST_BLOCKS {
        mesh.nodes[0].mine();
    }
    mesh.connect();
    mesh.agree_with(0, "a chain that was there");
    for maker in [0, 3, NODES - 1] {
        for _ in 0..BLOCKS_OF_ONE {
            mesh.nodes[maker].mine();
        }
        mesh.agree_with(maker, "blocks of one");
    }
    for makers in [&[0, 9][..], &[1, 4, 7], &[0, 2, 3, 5, 6, 8]] {
        std::thread::scope(|scope| {
            for maker in makers {
                let node = &mesh.nodes[*maker];
                // Another block may become the head between the two steps of one.
                scope.spawn(|| (0..BLOCKS_OF_SEVERAL).for_each(|_| drop(node.mine())));
            }
        });
        mesh.settle(&format!("blocks of {makers:?}"));
    }
    mesh.stop();
}

#[test]
fn a_line_of_ten_agrees() {
    all_agree(Shape::Line);
}

#[test]
fn a_ring_of_ten_agrees() {
    all_agree(Shape::Ring);
}

#[test]
fn a_random_mesh_of_ten_agrees() {
    all_agree(Shape::Random(1));
}
