//! The errors of a comparison.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chain::evm::execute::TransactionError;
use chain::genesis::GenesisError;
use chain::genesis::file::GenesisFileError;
use chain::import::ImportError;
use chain::rules::body::BodyError;
use chain::state::StateError;
use chain::trace::TraceError;
use e2e::RpcCallError;
use primitives::{B256, DecodeError, KeyError};
use serde_json::Value;
use store::StoreError;

/// The difference that ends a comparison, or the reason why it cannot go on.
#[derive(Debug, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "the fields are the place, the cause, and the got and expected values that the texts name"
)]
pub enum DifferentialError {
    /// Two executors differ. The text has both values.
    #[error("{0}")]
    Difference(String),
    /// An error with the place where it was met.
    #[error("{place}: {error}")]
    At { place: String, error: Box<Self> },
    /// An error with the seed that leads to it, its programs, and the command that repeats it.
    #[error("{error}\n{repeat}")]
    OfSeed { error: Box<Self>, repeat: String },

    /// An option has a value that is not known.
    #[error("fork: got {got}, expected one of {expected}")]
    Fork { got: String, expected: String },
    /// The node does not have the fork.
    #[error("fork: got {0}, which this node does not have")]
    NoSpec(&'static str),
    #[error("fields: got 12, but transactions of this chain have 9")]
    Fields,
    #[error("key: {0}")]
    Key(KeyError),
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("{}: {error}", path.display())]
    GenesisFile { path: PathBuf, error: GenesisFileError },

    /// Our side failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The importer refuses a block that the executor has made.
    #[error("the importer refuses the block: {0}")]
    Import(#[from] ImportError),
    #[error("the block {0} is not stored")]
    NotStored(B256),
    /// A transaction that was refused has no steps.
    #[error("{0}")]
    Refused(String),
    #[error("got {got}, expected steps")]
    NoSteps { got: String },

    /// The independent executor cannot be used.
    #[error("Node.js, or for the specification Python, or its libraries are missing")]
    NotInstalled,
    #[error("the independent executor has none of these forks")]
    NoCommonFork,
    #[error("the independent executor does not have the rules {0}")]
    NoRules(&'static str),
    #[error("executor.mjs: {0}")]
    Start(io::Error),
    #[error("the independent executor: {0}")]
    Process(io::Error),
    #[error("the independent executor: no answer within {0:?}, or it has ended")]
    NoAnswer(Duration),
    #[error("the independent executor answers {line:.2000}, expected its report")]
    Answer { line: String },

    #[error("{} {arguments}: {status}: {got}", program.display())]
    Program {
        program: PathBuf,
        arguments: String,
        status: String,
        got: String,
    },
    #[error("{}: got no line of JSON on standard error, but: {got}", program.display())]
    NoLines { program: PathBuf, got: String },

    /// The node cannot be used.
    #[error("{url}: {error}")]
    Url { url: String, error: io::Error },
    #[error("{0} has no address")]
    NoAddress(String),
    #[error("{method}: {error}")]
    Call { method: String, error: RpcCallError },
    #[error("got {got}, expected {expected}")]
    Value { got: Value, expected: String },
    #[error("block {number} of the node: {error}")]
    Block { number: u64, error: DecodeError },
    #[error("block {number} of the node: got a header with hash {got}, expected {expected}")]
    BlockHash { number: u64, got: B256, expected: B256 },
    #[error(
        "block 0: ours is {ours}, the node's is {theirs}; the option --genesis names the node's genesis file"
    )]
    OtherChain { ours: B256, theirs: B256 },
    #[error("the node has not mined transaction {hash} after {patience:?}")]
    NotMined { hash: Value, patience: Duration },
}

impl DifferentialError {
    /// For `map_err`: adds the path of a file or program.
    pub(crate) fn of_path(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |error| Self::File { path, error }
    }

    /// For `map_err`: adds the place where the error was met.
    pub(crate) fn at<E: Into<Self>>(place: impl FnOnce() -> String) -> impl FnOnce(E) -> Self {
        move |error| Self::At {
            place: place(),
            error: Box::new(error.into()),
        }
    }
}
