//! Miners: who finds blocks, and when.

use std::time::Duration;

use network::testing::ImportResult;

use super::whole::{POWER_MAX, POWER_USUAL};
use super::{Event, Role, World};

impl World {
    /// Each miner finds blocks at random, independently of the others.
    pub(super) fn schedule_block(&mut self, index: usize) {
        let miners = self.honest_nodes().len().max(1) as f64;
        let uniform = (self.entropy.below(1 << 30) as f64 + 1.0) / (1u64 << 30) as f64;
        // A whole node looks more often, and its hash power says how often it finds one.
        let looks = match &self.nodes[index].whole {
            Some(_) => POWER_MAX as f64 / POWER_USUAL as f64,
            None => 1.0,
        };
        let wait = self.interval.as_secs_f64() * miners / looks * -uniform.ln();
        self.after(Duration::from_secs_f64(wait), Event::Mine(index));
    }

    pub(crate) fn set_mining(&mut self, index: usize, mines: bool) {
        self.nodes[index].mines = mines;
    }

    pub(super) fn mine(&mut self, index: usize) {
        self.schedule_block(index);
        if let Some(whole) = &self.nodes[index].whole {
            let power = whole.power;
            if self.entropy.below(POWER_MAX) as u64 >= power {
                return;
            }
        }
        let node = &self.nodes[index];
        let Role::Honest { sync, .. } = &node.role else {
            return;
        };
        if node.mines && node.is_up && !sync.progress().far_behind {
            self.mine_now(index);
        }
    }

    /// Makes a block at a node.
    pub(crate) fn mine_now(&mut self, index: usize) {
        if self.nodes[index].whole.is_some() {
            return self.mine_whole(index);
        }
        let block = self.chain(index).make_block(index);
        let result = self.import(index, block);
        assert_eq!(result, ImportResult::Good, "a block made by node {index}");
        self.counts.mined += 1;
        self.head_moved(index);
    }
}
