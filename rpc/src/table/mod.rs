//! A method is one row: its name, the names of its parameters and the function that answers it.
//!
//! The types of parameters and result come from the function itself (`handler.rs`), so that the
//! description of a method always fits what it does (`signature.rs`). HTTP, WebSocket, the local
//! socket, `--rpcapi` and `rpc_modules` all read the same rows. A row also says where its function
//! may run, because only the method knows whether it reads the disk. How rows are found and run is
//! in [`crate::dispatch`].

mod handler;
mod signature;

use std::fmt;

pub(crate) use handler::{
    CachedHandler, InlineError, IntoHandler, PendingReply, ReadScope, SubscribingHandler, SyncHandler,
    WaitingHandler,
};
pub(crate) use signature::MethodSignature;

use crate::json::MethodResult;
use crate::modules::ALIASES;
use crate::params::FromParams;
use crate::wire_type::WireType;

/// The threads on which a method runs, with the function that answers it.
pub(crate) enum Execution<C> {
    Inline(SyncHandler<C>),
    Sized(SyncHandler<C>),
    Reading(SyncHandler<C>),
    Cached(CachedHandler<C>),
    Brief(CachedHandler<C>),
    Blocking(SyncHandler<C>),
    Heavy(SyncHandler<C>),
    Waiting(WaitingHandler<C>),
    Subscribing(SubscribingHandler<C>),
    Modules,
    Discover,
}

/// The name, the parameters and the result of a method.
#[derive(Clone, Debug)]
pub struct MethodInfo {
    name: &'static str,
    has_alias: bool,
    signature: MethodSignature,
    summary: &'static str,
}

impl MethodInfo {
    /// The name, `<module>_<method>`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The module: the name up to the first underscore, or up to the point of `rpc.discover`.
    pub fn module(&self) -> &'static str {
        self.name
            .split_once(['_', '.'])
            .map_or(self.name, |(module, _)| module)
    }

    /// The name in Ethereum's API, if that API has another name for the module.
    pub fn alias(&self) -> Option<String> {
        if !self.has_alias {
            return None;
        }
        let (module, method) = self.name.split_once('_')?;
        ALIASES
            .iter()
            .find(|(_, own)| *own == module)
            .map(|(alias, _)| format!("{alias}_{method}"))
    }

    /// The parameters and the result.
    pub const fn signature(&self) -> &MethodSignature {
        &self.signature
    }

    /// The result in a sentence. Empty for a method that is not described.
    pub const fn summary(&self) -> &'static str {
        self.summary
    }
}

/// One method. `C` is the context: what the methods of one node work on.
pub struct Method<C> {
    info: MethodInfo,
    execution: Execution<C>,
}

impl<C> Method<C> {
    /// A method that answers from memory within microseconds. It runs on the network threads and
    /// must neither wait nor read the disk. For a few rows of the store, see [`Method::reading`].
    pub fn inline<F, S, const N: usize>(name: &'static str, params: [&'static str; N], function: F) -> Self
    where
        F: IntoHandler<SyncHandler<C>, S>,
    {
        Self::typed(name, params, function, Execution::Inline)
    }

    /// A method whose work grows only with its parameters. It runs inline if the parameters are
    /// short (`SHORT_PARAMS_LEN_MAX`), and on the blocking pool otherwise.
    pub fn sized<F, S, const N: usize>(name: &'static str, params: [&'static str; N], function: F) -> Self
    where
        F: IntoHandler<SyncHandler<C>, S>,
    {
        Self::typed(name, params, function, Execution::Sized)
    }

    /// A method that reads a few rows of the store. That takes some microseconds, which a change of
    /// threads would double. It runs inline if the parameters are short and do not name the pending
    /// block, which may have to be built first. Otherwise it runs on the blocking pool.
    pub fn reading<F, S, const N: usize>(name: &'static str, params: [&'static str; N], function: F) -> Self
    where
        F: IntoHandler<SyncHandler<C>, S>,
    {
        Self::typed(name, params, function, Execution::Reading)
    }

    /// A method whose answer is often in memory. If its parameters are short, it is tried inline
    /// with `ReadScope::Memory`. If that is not enough, it runs on the blocking pool.
    pub fn cached<F, S, const N: usize>(name: &'static str, params: [&'static str; N], function: F) -> Self
    where
        F: IntoHandler<CachedHandler<C>, S>,
    {
        Self::typed(name, params, function, Execution::Cached)
    }

    /// A method that executes code, in most cases little. It is tried inline like a
    /// [`Method::cached`] one. If that is not enough, it runs like a [`Method::heavy`] one.
    pub(crate) fn brief<F, S, const N: usize>(
        name: &'static str,
        params: [&'static str; N],
        function: F,
    ) -> Self
    where
        F: IntoHandler<CachedHandler<C>, S>,
    {
        Self::typed(name, params, function, Execution::Brief)
    }

    /// A method that may read the disk or take a lock. It runs on the blocking pool.
    pub fn blocking<F, S, const N: usize>(name: &'static str, params: [&'static str; N], function: F) -> Self
    where
        F: IntoHandler<SyncHandler<C>, S>,
    {
        Self::typed(name, params, function, Execution::Blocking)
    }

    /// A method that executes code or walks much of the chain. It runs on the blocking pool, but
    /// has its own, smaller share of it, so that reads do not queue behind it.
    pub fn heavy<F, S, const N: usize>(name: &'static str, params: [&'static str; N], function: F) -> Self
    where
        F: IntoHandler<SyncHandler<C>, S>,
    {
        Self::typed(name, params, function, Execution::Heavy)
    }

    /// A method that waits for an event. It holds no thread while it waits.
    pub fn waiting<F, S, const N: usize>(name: &'static str, params: [&'static str; N], function: F) -> Self
    where
        F: IntoHandler<WaitingHandler<C>, S>,
    {
        Self::typed(name, params, function, Execution::Waiting)
    }

    /// A method about the connection it is called through, which must be one that can send
    /// notifications. It runs on the network threads like [`Method::inline`]. Over HTTP it is
    /// refused.
    pub fn subscribing<F, S, const N: usize>(
        name: &'static str,
        params: [&'static str; N],
        function: F,
    ) -> Self
    where
        F: IntoHandler<SubscribingHandler<C>, S>,
    {
        Self::typed(name, params, function, Execution::Subscribing)
    }

    /// `rpc_modules`: the enabled modules and the version of each. Only the listener knows them.
    pub(crate) fn modules() -> Self {
        let result = WireType::Map(&WireType::Named("String"));
        Self::without_function("rpc_modules", result, Execution::Modules)
            .summary("Returns the modules of this listener, with the version of each.")
    }

    /// `rpc.discover`: the description of all methods.
    pub(crate) fn discover() -> Self {
        let result = WireType::Named("OpenRpc");
        Self::without_function("rpc.discover", result, Execution::Discover)
            .summary("Returns this description of all methods.")
    }

    fn typed<F, H, S, const N: usize>(
        name: &'static str,
        params: [&'static str; N],
        function: F,
        execution: fn(H) -> Execution<C>,
    ) -> Self
    where
        F: IntoHandler<H, S>,
    {
        const { assert!(N == F::Params::COUNT, "a name for each parameter") };
        let signature = MethodSignature::new(&params, &F::Params::types(), F::Result::TYPE);
        Self {
            info: MethodInfo {
                name,
                has_alias: true,
                signature,
                summary: "",
            },
            execution: execution(function.into_handler()),
        }
    }

    /// A method that the dispatcher answers itself.
    fn without_function(name: &'static str, result: WireType, execution: Execution<C>) -> Self {
        Self {
            info: MethodInfo {
                name,
                has_alias: true,
                signature: MethodSignature::new(&[], &[], result),
                summary: "",
            },
            execution,
        }
    }

    /// Describes the method: what it returns, in a sentence.
    #[must_use]
    pub const fn summary(mut self, summary: &'static str) -> Self {
        self.info.summary = summary;
        self
    }

    /// The same method under its own name alone (`--rpc.noalias`).
    #[must_use]
    pub const fn without_alias(mut self) -> Self {
        self.info.has_alias = false;
        self
    }

    /// The name, the parameters and the result of the method.
    pub const fn info(&self) -> &MethodInfo {
        &self.info
    }

    /// The name, `<module>_<method>`.
    pub const fn name(&self) -> &'static str {
        self.info.name
    }

    /// The module that the name begins with.
    pub fn module(&self) -> &'static str {
        self.info.module()
    }

    pub(crate) const fn execution(&self) -> &Execution<C> {
        &self.execution
    }
}

impl<C> fmt::Debug for Method<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Method").field(&self.info.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::RpcResult;
    use crate::modules::MODULE_RPC;

    fn nothing((): &()) -> RpcResult<()> {
        Ok(())
    }

    #[test]
    fn aliases() {
        let check = |name, alias: Option<&str>| {
            let method = Method::inline(name, [], nothing);
            assert_eq!(method.info().alias().as_deref(), alias, "{name}");
        };
        check("mc_getBalance", Some("eth_getBalance"));
        check("chain3_sha3", Some("web3_sha3"));
        check("net_version", None);
        let without_alias = Method::inline("mc_call", [], nothing).without_alias();
        assert_eq!(without_alias.info().alias(), None);
        assert_eq!(Method::<()>::discover().module(), MODULE_RPC);
    }
}
