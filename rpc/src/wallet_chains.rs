//! MicroChains for ordinary wallets: Ethereum's methods on one MicroChain, at the path
//! `/chain/ADDRESS` of the server of an SCS (docs/microchain-design.md, 5.1).
//!
//! The methods are those of a base-chain node. They read the chain through [`Node`].

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use primitives::Address;

use crate::dispatch::{Dispatcher, MethodTable, MethodTableError, Rpc};
use crate::methods;
use crate::micro_chains::{MicroChains, ScsNode};
use crate::modules::Modules;
use crate::node::Node;

/// The dispatchers of an SCS, one for each MicroChain that somebody has asked for. They share the
/// limits of the SCS's own methods.
pub struct WalletChains {
    rpc: Arc<Rpc<ScsNode>>,
    modules: Modules,
    methods: MethodTable<Node>,
    known: Mutex<HashMap<Address, Arc<Dispatcher<Node>>>>,
}

impl std::fmt::Debug for WalletChains {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WalletChains").finish_non_exhaustive()
    }
}

impl WalletChains {
    /// The MicroChains of the SCS of `rpc`. The modules that wallets need are always served,
    /// others if they are among `modules`.
    ///
    /// # Errors
    /// If the table of methods is wrong.
    pub fn new(rpc: Arc<Rpc<ScsNode>>, modules: &Modules) -> Result<Self, MethodTableError> {
        Ok(Self {
            rpc,
            modules: Modules::default().with(modules),
            methods: MethodTable::new(methods::application_chain())?,
            known: Mutex::default(),
        })
    }

    /// The address in the path of a MicroChain, in whatever form; `None` if it is another path.
    pub(crate) fn address_in(path: &str) -> Option<&str> {
        let address = path.strip_prefix("/chain/")?;
        (!address.is_empty() && !address.contains('/')).then_some(address)
    }

    /// The dispatcher for the address in a path. `None` if the SCS has no such MicroChain, or
    /// cannot serve it now.
    pub fn dispatcher(&self, address: &str) -> Option<Arc<Dispatcher<Node>>> {
        let address: Address = address.parse().ok()?;
        let scs: &dyn MicroChains = &*self.rpc.context().0;
        let node = scs.wallet_node(&address).unwrap_or_else(|error| {
            tracing::error!(chain = %address, error = error.message(), "a MicroChain cannot be served to wallets");
            None
        });
        let mut known = self.known.lock();
        let Some(node) = node else {
            known.remove(&address);
            return None;
        };
        if let Some(dispatcher) = known.get(&address)
            && Arc::ptr_eq(dispatcher.context(), &node)
        {
            return Some(Arc::clone(dispatcher));
        }
        let rpc = Rpc::beside(&self.rpc, node, &self.methods);
        let dispatcher = Arc::new(rpc.dispatcher(&self.modules));
        // Chains that the SCS has left go with the next one that comes.
        known.retain(|address, _| scs.chain(address).is_some());
        known.insert(address, Arc::clone(&dispatcher));
        Some(dispatcher)
    }
}
