//! What a method is: one row with its name and the function that answers it.
//!
//! HTTP, the local channel, `--rpcapi` and `rpc_modules` all read the same rows. A row also says
//! where its function may run, because only the method knows whether it touches the disk. How rows
//! are found and run is in [`crate::dispatch`].

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;

use crate::blocks::Reach;
use crate::budget::too_long;
use crate::error::{RpcError, RpcResult};
use crate::params::Params;
use crate::subscriptions::Session;

/// Every module that can be enabled. Some have no methods in a given node.
pub const MODULES: [&str; 12] = [
    "chain3", "mc", "net", "admin", "txpool", "personal", "vnode", "scs", "debug", "miner", "db", "shh",
];
/// The modules an HTTP listener has unless told otherwise.
pub const MODULES_DEFAULT: [&str; 3] = ["chain3", "mc", "net"];
/// The module that is always there.
pub(crate) const MODULE_RPC: &str = "rpc";
/// Module names of the compatible library, and ours.
const ALIASES: [(&str, &str); 2] = [("eth", "mc"), ("web3", "chain3")];

/// A result, already written as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json(Vec<u8>);

impl Json {
    /// Writes `value`.
    ///
    /// # Errors
    /// −32603 if `value` cannot be JSON, such as a map whose keys are no strings.
    pub fn write<T: Serialize + ?Sized>(value: &T) -> RpcResult {
        serde_json::to_vec(value)
            .map(Self)
            .map_err(|error| unwritable(&error))
    }

    /// Writes `value`, which may be long, and stops where it gets longer than `len_max` bytes.
    ///
    /// # Errors
    /// −32000 for that, and as [`Json::write`].
    pub(crate) fn write_within<T: Serialize + ?Sized>(value: &T, len_max: usize) -> RpcResult {
        let mut out = Bounded {
            text: Vec::new(),
            len_max,
        };
        match serde_json::to_writer(&mut out, value) {
            Ok(()) => Ok(Self(out.text)),
            Err(error) if error.is_io() => Err(too_long("", len_max)),
            Err(error) => Err(unwritable(&error)),
        }
    }

    /// Takes text that the caller has written and vouches for: it is sent as it stands.
    pub fn from_text(json: Vec<u8>) -> Self {
        Self(json)
    }

    /// The JSON text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn unwritable(error: &serde_json::Error) -> RpcError {
    tracing::error!(%error, "a result cannot be written as JSON");
    RpcError::internal("the result cannot be written")
}

/// Text that takes in no more than `len_max` bytes.
struct Bounded {
    text: Vec<u8>,
    len_max: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.len_max - self.text.len() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes what a method gave: the last step of every row.
///
/// # Errors
/// The method's own error, or −32603 if the value cannot be JSON.
pub fn reply<T: Serialize>(result: RpcResult<T>) -> RpcResult {
    Json::write(&result?)
}

/// A function that answers on the thread it is called on.
pub type Handler<C> = fn(&C, Params<'_>) -> RpcResult;
/// A function that answers from memory where it can, and says so where it cannot.
pub type CachedHandler<C> = fn(&C, Params<'_>, Reach) -> Result<Json, Stop>;
/// A function whose answer comes later; it reads its parameters before it waits.
pub type WaitingHandler<C> = fn(Arc<C>, Params<'_>) -> Waiting;
/// A function that needs the connection it is called through.
pub type SessionHandler<C> = fn(&C, &Session, Params<'_>) -> RpcResult;
/// An answer that comes later.
pub type Waiting = Pin<Box<dyn Future<Output = RpcResult> + Send>>;

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

/// The modules a listener exposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modules(BTreeSet<&'static str>);

/// A module name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown API module {got:?}, want a list of: {}", MODULES.join(", "))]
pub struct UnknownModule {
    /// The name given.
    pub got: String,
}

impl Modules {
    /// Every module: what the local channel exposes.
    pub fn all() -> Self {
        Self(MODULES.into())
    }

    /// Whether `module` is exposed; `rpc` always is.
    pub fn contains(&self, module: &str) -> bool {
        module == MODULE_RPC || self.0.contains(module)
    }
}

/// `chain3`, `mc`, `net`.
impl Default for Modules {
    fn default() -> Self {
        Self(MODULES_DEFAULT.into())
    }
}

/// Reads a comma-separated list, as `--rpcapi` takes it; spaces around names do not matter.
impl FromStr for Modules {
    type Err = UnknownModule;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        let known = |name: &str| {
            MODULES
                .into_iter()
                .find(|module| *module == name)
                .ok_or_else(|| UnknownModule { got: name.to_owned() })
        };
        names.map(known).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_lists() {
        assert_eq!("mc,net,chain3".parse(), Ok(Modules::default()));
        assert_eq!(" chain3 , mc,,net".parse(), Ok(Modules::default()));
        assert_eq!(MODULES.join(",").parse(), Ok(Modules::all()));
        assert_eq!(
            "mc,eth2".parse::<Modules>(),
            Err(UnknownModule { got: "eth2".into() })
        );
        let none: Modules = "".parse().unwrap();
        assert!(!none.contains("mc") && none.contains("rpc"));
    }

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

    #[test]
    fn values_that_are_no_json_are_errors() {
        let map = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert_eq!(Json::write(&map).unwrap_err().code(), -32603);
        assert_eq!(Json::write_within(&map, 100).unwrap_err().code(), -32603);
    }

    #[test]
    fn long_values_are_written_up_to_a_bound() {
        struct Endless<'a>(&'a std::cell::Cell<usize>);

        impl Serialize for Endless<'_> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(std::iter::from_fn(|| {
                    self.0.set(self.0.get() + 1);
                    (self.0.get() < 1_000_000).then_some(7)
                }))
            }
        }

        let written = std::cell::Cell::new(0);
        let error = Json::write_within(&Endless(&written), 100).unwrap_err();
        assert_eq!(error.message(), "the response is longer than 100 bytes");
        assert!(written.get() < 100, "{} elements", written.get());
        assert_eq!(Json::write_within("12345678", 10), Json::write("12345678"));
        assert!(Json::write_within("12345678", 9).is_err());
    }
}
