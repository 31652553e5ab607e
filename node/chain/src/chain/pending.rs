//! The pending block: built when somebody asks for it, and kept until its inputs change.
//!
//! Building executes the transactions of a whole block. Anybody may ask, and anybody may change the
//! pool. So one block is built at a time. All who ask meanwhile get the block that is built next,
//! which has everything that came before they asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::work_maker::BuildInputs;
use crate::mining::build::UnsealedBlock;

/// The pending block.
#[derive(Debug)]
pub(super) struct PendingBlock<B = UnsealedBlock> {
    last: Mutex<Option<BuiltBlock<B>>>,
    /// Held while a block is built.
    building: Mutex<()>,
    /// The number of builds that have begun.
    begun: AtomicU64,
}

#[derive(Debug)]
struct BuiltBlock<B> {
    /// The number of its build, from 1.
    number: u64,
    inputs: BuildInputs,
    block: Arc<B>,
}

impl<B> Default for PendingBlock<B> {
    fn default() -> Self {
        Self {
            last: Mutex::default(),
            building: Mutex::default(),
            begun: AtomicU64::default(),
        }
    }
}

impl<B> PendingBlock<B> {
    /// The block that `build` makes from the current `inputs`, or such a block that exists already.
    ///
    /// # Errors
    /// If `build` fails.
    pub(super) fn get<E>(
        &self,
        inputs: impl Fn() -> BuildInputs,
        build: impl FnOnce() -> Result<B, E>,
    ) -> Result<Arc<B>, E> {
        let begun = self.begun.load(Ordering::SeqCst);
        let wanted = inputs();
        if let Some(block) = self.find(&wanted, u64::MAX) {
            return Ok(block);
        }
        let _building = self.building.lock();
        if let Some(block) = self.find(&wanted, begun) {
            return Ok(block);
        }
        let number = 1 + self.begun.fetch_add(1, Ordering::SeqCst);
        let inputs = inputs();
        let block = Arc::new(build()?);
        *self.last.lock() = Some(BuiltBlock {
            number,
            inputs,
            block: Arc::clone(&block),
        });
        Ok(block)
    }

    /// The last block, if it has the inputs `wanted`, or if it is on the same head and its build
    /// has a number above `begun`.
    fn find(&self, wanted: &BuildInputs, begun: u64) -> Option<Arc<B>> {
        let last = self.last.lock();
        let last = last.as_ref()?;
        let is_newer = last.number > begun && last.inputs.head == wanted.head;
        (is_newer || last.inputs == *wanted).then(|| Arc::clone(&last.block))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use primitives::{Address, B256, Bytes};

    use super::*;
    use crate::mining::build::BuildSettings;

    fn inputs(head: u8, generation: u64) -> BuildInputs {
        BuildInputs {
            head: B256::repeat_byte(head),
            generation,
            uncles: 0,
            settings: BuildSettings {
                beneficiary: Address::ZERO,
                extra_data: Bytes::new(),
                gas_target: 0,
                gas_limit: None,
            },
        }
    }

    fn get(pending: &PendingBlock<u64>, head: u8, generation: u64, block: u64) -> u64 {
        *pending
            .get(|| inputs(head, generation), || Ok::<_, Infallible>(block))
            .unwrap_or_else(|never| match never {})
    }

    #[test]
    fn a_block_is_kept_until_its_inputs_change() {
        let pending = PendingBlock::default();
        let got = [(1, 1, 10), (1, 1, 20), (1, 2, 30), (2, 2, 40), (2, 2, 50)]
            .map(|(head, generation, block)| get(&pending, head, generation, block));
        assert_eq!(got, [10, 10, 30, 40, 40]);
        let failed = pending.get(|| inputs(3, 2), || Err("as asked"));
        assert_eq!(failed, Err("as asked"));
        assert_eq!(get(&pending, 3, 2, 60), 60, "a failure is not kept");
    }

    #[test]
    fn many_who_ask_share_few_builds() {
        const CALLERS: u64 = 16;
        let pending = PendingBlock::default();
        // The pool changes whenever somebody asks.
        let (generation, builds, building) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let ask = |head| {
            let inputs = || inputs(head, generation.fetch_add(1, Ordering::SeqCst));
            let build = || {
                assert_eq!(building.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                // All ask while the first block is built.
                while generation.load(Ordering::SeqCst) <= CALLERS {
                    std::thread::yield_now();
                }
                building.fetch_sub(1, Ordering::SeqCst);
                builds.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Infallible>(head)
            };
            pending.get(inputs, build).map(|block| *block)
        };
        std::thread::scope(|scope| {
            let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(|| ask(1))).collect();
            for caller in callers {
                assert_eq!(caller.join().expect("no panic"), Ok(1));
            }
        });
        let shared = builds.load(Ordering::SeqCst);
        assert!(shared <= 2, "{shared} builds");
        assert_eq!(ask(2), Ok(2), "another head has a block of its own");
    }
}
