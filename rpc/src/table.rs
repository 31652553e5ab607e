//! What a method is: one row with its name and the function that answers it.
//!
//! HTTP, the local channel, `--rpcapi` and `rpc_modules` all read the same rows. A row also says
//! where its function may run, because only the method knows whether it touches the disk. How rows
//! are found and run is in [`crate::dispatch`].

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;

use crate::error::{RpcError, RpcResult};
use crate::json::Json;
use crate::modules::ALIASES;
use crate::params::Params;
use crate::subscriptions::Session;

/// Writes what a method gave: the last step of every row.
///
/// # Errors
/// The method's own error, or −32603 if the value cannot be JSON.
pub fn reply<T: Serialize>(result: RpcResult<T>) -> RpcResult<Json> {
    Json::write(&result?)
}

/// A function that answers on the thread it is called on.
pub type Handler<C> = fn(&C, Params<'_>) -> RpcResult<Json>;
/// A function that answers from memory where it can, and says so where it cannot.
pub type CachedHandler<C> = fn(&C, Params<'_>, Reach) -> Result<Json, Stop>;
/// A function whose answer comes later; it reads its parameters before it waits.
pub type WaitingHandler<C> = fn(Arc<C>, Params<'_>) -> Waiting;
/// A function that needs the connection it is called through.
pub type SessionHandler<C> = fn(&C, &Session, Params<'_>) -> RpcResult<Json>;
/// An answer that comes later.
pub type Waiting = Pin<Box<dyn Future<Output = RpcResult<Json>> + Send>>;

/// How far a question may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Memory, and a few rows of the store: it is asked on a network thread.
    Memory,
    /// Everything.
    Store,
}

/// Why a method has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// There is none.
    Error(RpcError),
    /// Not within [`Reach::Memory`].
    Deferred,
}

impl From<RpcError> for Stop {
    fn from(error: RpcError) -> Self {
        Self::Error(error)
    }
}

impl From<Stop> for RpcError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Error(error) => error,
            Stop::Deferred => Self::internal("a method stopped where it need not"),
        }
    }
}

/// How a method runs.
pub(crate) enum Call<C> {
    Inline(Handler<C>),
    Sized(Handler<C>),
    Reading(Handler<C>),
    Cached(CachedHandler<C>),
    Brief(CachedHandler<C>),
    Blocking(Handler<C>),
    Heavy(Handler<C>),
    Waiting(WaitingHandler<C>),
    Session(SessionHandler<C>),
    Modules,
    Discover,
}

/// One method: its name, the function that answers it, and what is told of it. `C` is the
/// context, what the methods of one node work on.
pub struct Method<C> {
    name: &'static str,
    call: Call<C>,
    has_alias: bool,
    signature: &'static str,
    summary: &'static str,
}

impl<C> Method<C> {
    /// A method that answers from memory within microseconds. It runs on the network threads and
    /// must neither wait nor read the disk. Where a few rows are read, see [`Method::reading`].
    pub const fn inline(name: &'static str, handler: Handler<C>) -> Self {
        Self::new(name, Call::Inline(handler))
    }

    /// A method whose work grows with its parameters alone: inline while they are short
    /// (`SHORT_PARAMS_LEN_MAX`), on the blocking pool otherwise.
    pub const fn sized(name: &'static str, handler: Handler<C>) -> Self {
        Self::new(name, Call::Sized(handler))
    }

    /// A method that reads a few rows of the store: some microseconds, which a change of threads
    /// would double. Inline while its parameters are short and do not name the pending block,
    /// which may have to be built first; on the blocking pool otherwise.
    pub const fn reading(name: &'static str, handler: Handler<C>) -> Self {
        Self::new(name, Call::Reading(handler))
    }

    /// A method whose answer is often in memory: tried inline with [`Reach::Memory`], while its
    /// parameters are short, and where that is not enough run on the blocking pool.
    pub const fn cached(name: &'static str, handler: CachedHandler<C>) -> Self {
        Self::new(name, Call::Cached(handler))
    }

    /// A method that executes code, mostly little: tried inline as [`Method::cached`] ones are,
    /// and where that is not enough run as [`Method::heavy`] ones.
    pub const fn brief(name: &'static str, handler: CachedHandler<C>) -> Self {
        Self::new(name, Call::Brief(handler))
    }

    /// A method that may read the disk or take a lock. It runs on the blocking pool.
    pub const fn blocking(name: &'static str, handler: Handler<C>) -> Self {
        Self::new(name, Call::Blocking(handler))
    }

    /// A method that executes code or walks much of the chain. It runs on the blocking pool, but
    /// has its own, smaller share, so that reads do not queue behind it.
    pub const fn heavy(name: &'static str, handler: Handler<C>) -> Self {
        Self::new(name, Call::Heavy(handler))
    }

    /// A method that waits for something to happen. It holds no thread while it waits.
    pub const fn waiting(name: &'static str, handler: WaitingHandler<C>) -> Self {
        Self::new(name, Call::Waiting(handler))
    }

    /// A method about the connection it is called through: one that lasts and can be told things.
    /// It runs on the network threads like [`Method::inline`]. Over HTTP it is refused.
    pub const fn session(name: &'static str, handler: SessionHandler<C>) -> Self {
        Self::new(name, Call::Session(handler))
    }

    /// `rpc_modules`: the enabled modules and the version of each. Only the listener knows them.
    pub(crate) const fn modules() -> Self {
        Self::new("rpc_modules", Call::Modules).says(
            "-> String{}",
            "The modules of this listener, with the version of each.",
        )
    }

    /// `rpc.discover`: the description of all methods.
    pub(crate) const fn discover() -> Self {
        Self::new("rpc.discover", Call::Discover).says("-> OpenRpc", "This description of all methods.")
    }

    const fn new(name: &'static str, call: Call<C>) -> Self {
        Self {
            name,
            call,
            has_alias: true,
            signature: "",
            summary: "",
        }
    }

    /// Describes the method: its parameters and result in the notation of
    /// [`crate::openrpc::Signature`], such as `"address: DATA20, at?: BLOCKREF -> QUANTITY"`, and
    /// what it gives, in a sentence.
    pub const fn says(mut self, signature: &'static str, summary: &'static str) -> Self {
        self.signature = signature;
        self.summary = summary;
        self
    }

    /// The same method under its own name alone (`--rpc.noalias`).
    pub const fn without_alias(mut self) -> Self {
        self.has_alias = false;
        self
    }

    /// Parameters and result; empty where the method is not described.
    pub fn signature(&self) -> &'static str {
        self.signature
    }

    /// What the method gives, in a sentence.
    pub fn summary(&self) -> &'static str {
        self.summary
    }

    /// The name, `<module>_<method>`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The module: the name up to the first underscore, or to the point of `rpc.discover`.
    pub fn module(&self) -> &'static str {
        self.name
            .split_once(['_', '.'])
            .map_or(self.name, |(module, _)| module)
    }

    /// The name in the compatible library, where that differs.
    pub(crate) fn alias(&self) -> Option<String> {
        if !self.has_alias {
            return None;
        }
        let (module, method) = self.name.split_once('_')?;
        ALIASES
            .iter()
            .find(|(_, own)| *own == module)
            .map(|(alias, _)| format!("{alias}_{method}"))
    }

    pub(crate) fn call(&self) -> Call<C> {
        self.call
    }
}

// Written out because the derived forms would ask the same of `C`, of which there is no value here.
impl<C> Clone for Call<C> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<C> Copy for Call<C> {}
impl<C> Clone for Method<C> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<C> Copy for Method<C> {}
impl<C> fmt::Debug for Method<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Method").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::MODULE_RPC;

    #[test]
    fn aliases() {
        let check = |name, alias: Option<&str>| {
            let method = Method::<()>::inline(name, |(), _| reply(Ok(())));
            assert_eq!(method.alias().as_deref(), alias, "{name}");
        };
        check("mc_getBalance", Some("eth_getBalance"));
        check("chain3_sha3", Some("web3_sha3"));
        check("net_version", None);
        let only = Method::<()>::inline("mc_call", |(), _| reply(Ok(()))).without_alias();
        assert_eq!(only.alias(), None);
        assert_eq!(Method::<()>::discover().module(), MODULE_RPC);
    }
}
