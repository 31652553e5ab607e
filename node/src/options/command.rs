//! The subcommands of `vnode` and their arguments.

use std::fmt;
use std::path::PathBuf;

use chain::import::limits::BATCH_BYTES_DEFAULT;
use clap::Args;
use testvec::TestvecOptions;

use super::endpoint::NodeEndpoint;
use super::values::{AccountRef, HeightRef, parse_block_number};

/// The tables of `vnode export --format parquet`.
pub const TABLES: [&str; 5] = ["blocks", "transactions", "receipts", "logs", "traces"];
/// The shells that have completions.
pub const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];
/// Default of `--partition`, in blocks.
pub const PARTITION_BLOCKS: u64 = 10_000;
/// The longest time between two blocks of a MicroChain, in seconds.
pub const PERIOD_SECS_MAX: u64 = 3600;

/// The format of `vnode export`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ExportFormat {
    /// Blocks in RLP, one after another, as `vnode import` reads them
    #[default]
    Rlp,
    /// Era1 files of 8192 blocks with their receipts and total difficulties, as chains are
    /// published; `vnode import` reads them
    Era1,
    /// Tables of blocks, transactions, receipts, logs and traces
    Parquet,
}

/// A command of `vnode`, done instead of running the node.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum VnodeCommand {
    /// Initialise the data directory for the network that a genesis file describes
    Init {
        /// Genesis file in geth's format
        file: PathBuf,
    },
    /// Import blocks from files; blocks that are already stored are skipped
    Import {
        /// Files of RLP blocks, one after another, or Era1 files; a folder of Era1 files; - for
        /// standard input. The format is seen from the first byte
        #[arg(required = true, value_name = "FILE_OR_FOLDER")]
        files: Vec<PathBuf>,
        /// Memory for the blocks that share a commit, with their state and rows, in MiB, beside
        /// --cache. The more blocks share one, the less is written
        #[arg(long, value_name = "MIB", default_value_t = BATCH_BYTES_DEFAULT >> 20)]
        batch: usize,
    },
    /// Export blocks to a file, to a folder of Era1 files, or as tables to a folder of Parquet
    /// files
    Export {
        /// The format of the export
        #[arg(long, value_enum, default_value_t)]
        format: ExportFormat,
        /// Tables of --format parquet: blocks, transactions, receipts, logs, traces
        #[arg(long, value_delimiter = ',', value_parser = TABLES, default_values = TABLES)]
        tables: Vec<String>,
        /// Blocks in a file of --format parquet: files end at the multiples of this number
        #[arg(long, value_name = "BLOCKS", default_value_t = PARTITION_BLOCKS)]
        #[arg(value_parser = clap::value_parser!(u64).range(1..))]
        partition: u64,
        /// The file, which is written completely or not at all; - for standard output. With
        /// --format era1 or parquet a folder; files that are already in it are not written again
        #[arg(value_name = "FILE_OR_FOLDER")]
        file: PathBuf,
        /// First block [default: 0]
        #[arg(value_parser = parse_block_number)]
        first: Option<u64>,
        /// Last block [default: the head]
        #[arg(value_parser = parse_block_number)]
        last: Option<u64>,
    },
    /// Print the options with their values as a file for --config
    Dumpconfig,
    /// Check the database, show its size, or make it smaller
    #[command(subcommand)]
    Db(DbCommand),
    /// Write the state after a block as JSON: balance, nonce, code and storage of each address
    Dump {
        /// Number of the block, or latest
        block: HeightRef,
        /// The file, which is written completely or not at all; - for standard output
        #[arg(default_value = "-")]
        file: PathBuf,
    },
    /// Create, list and change the accounts in the key files
    #[command(subcommand)]
    Account(AccountCommand),
    /// Open a console to a running node, with completion of method names and a history
    Attach {
        /// The node: path of its local socket, or an http://, https://, ws:// or wss:// URL
        /// [default: the local socket in the data directory]
        endpoint: Option<NodeEndpoint>,
        /// Do one line of the console, print its result and end; exit codes as for `rpc`
        #[arg(long, value_name = "CALL")]
        exec: Option<String>,
        /// Token and trusted certificates of the client.
        #[command(flatten)]
        access: ClientAccess,
    },
    /// Call one method of a running node and print its result. The exit code is 0 for a result, 1
    /// if the node answers with an error, 3 if the node cannot be reached
    Rpc {
        /// The node: path of its local socket, or an http://, https://, ws:// or wss:// URL
        /// [default: the local socket in the data directory]
        #[arg(long, value_name = "ENDPOINT")]
        endpoint: Option<NodeEndpoint>,
        /// Token and trusted certificates of the client.
        #[command(flatten)]
        access: ClientAccess,
        /// Name of the method, such as `mc_blockNumber` or mc.blockNumber
        method: String,
        /// Parameters of the method; one that is not valid JSON is sent as a string
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        params: Vec<String>,
    },
    /// Run a node of the development network, three SCSs and a MicroChain with a Dapp, until Ctrl-C
    ///
    /// All is made by real transactions and kept in --datadir. Its period is 2 seconds, and base
    /// blocks come each second.
    ScsDemo {
        /// HTTP port of the node; 0 chooses a free port
        #[arg(long, value_name = "PORT", default_value_t = rpc::server::http::PORT)]
        rpcport: u16,
        /// HTTP port of the first SCS, the others have the next ones; 0 chooses free ports
        #[arg(long = "scs.rpcport", value_name = "PORT", default_value_t = rpc::server::http::PORT_SCS)]
        scs_rpcport: u16,
        /// Seconds between two blocks of the MicroChain
        #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=PERIOD_SECS_MAX))]
        period: u64,
    },
    /// Print the version
    Version {
        /// As JSON: name, version, system, architecture, compiler, networks
        #[arg(long)]
        json: bool,
    },
    /// Print the completions of a shell for `vnode` or `scs`
    Completions {
        /// The shell
        #[arg(value_parser = SHELLS)]
        shell: String,
        /// The program
        #[arg(default_value = "vnode")]
        program: NodeProgram,
    },
    /// Write the man pages of `vnode` and `scs` into a folder
    Manual {
        /// The folder, which is created if it is missing
        folder: PathBuf,
    },
    /// Run test vectors and the programs of other people's fuzzers against this node
    Testvec(TestvecOptions),
}

impl VnodeCommand {
    /// Whether the program `vnode-tools` runs this command.
    pub const fn is_of_tools(&self) -> bool {
        matches!(
            self,
            Self::ScsDemo { .. }
                | Self::Completions { .. }
                | Self::Manual { .. }
                | Self::Export {
                    format: ExportFormat::Parquet,
                    ..
                }
        )
    }
}

/// A program with completions and man pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum NodeProgram {
    /// The base-chain node.
    Vnode,
    /// The server of application chains.
    Scs,
}

/// A command of `vnode db`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Subcommand)]
pub enum DbCommand {
    /// Compare everything stored with the roots and hashes of the blocks; print a line for each
    /// fault
    Check {
        /// Check the state of every block, not only of the head; this holds the state in memory
        #[arg(long)]
        full: bool,
    },
    /// List the tables with their rows and bytes, the files, and which states are kept
    Stats,
    /// Copy the chain into a folder, also while a node runs on it. The folder is a data directory
    /// without keys
    Backup {
        /// The folder, which is made; it must be empty if it exists
        folder: PathBuf,
    },
    /// Remove past states, all but those of --state [default: recent]. A node that runs with
    /// --state recent does the same by and by
    Prune,
    /// Give the unused space of the database back to the file system
    ///
    /// The rows are copied into a new file, which is compared and then takes the place of the old
    /// one. So this needs free space for the new file. A death or a power failure at any moment
    /// loses nothing.
    Compact,
}

/// A command of `vnode account`.
#[derive(Clone, Debug, PartialEq, Eq, clap::Subcommand)]
pub enum AccountCommand {
    /// Create an account with a new key; asks for its password
    New,
    /// List the accounts in the key files
    List,
    /// Import a key from a file: 64 hexadecimal digits, or a key file (version 3)
    ///
    /// Asks for the password of the key file, if it is one, and for the new password. With
    /// --password these are the first and the second line of that file; a single line is used for
    /// both.
    Import {
        /// File with the key
        file: PathBuf,
    },
    /// Change the password of an account
    ///
    /// With --password the first line of that file is the current password, the second line the new
    /// one.
    Update {
        /// Address of the account, or its number in `account list`
        account: AccountRef,
    },
}

/// The token that a client shows a guarded node, and the certificates that it trusts.
#[derive(Clone, Default, PartialEq, Eq, Args)]
pub struct ClientAccess {
    /// The token that the node asks for, over HTTP and WebSockets
    #[arg(long, value_name = "TOKEN", env = "VNODE_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Certificates (PEM) that are trusted in addition to the usual authorities
    #[arg(long = "tls.ca", value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
}

/// Shows no secret.
impl fmt::Debug for ClientAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientAccess")
            .field("token", &self.token.is_some())
            .field("tls_ca", &self.tls_ca)
            .finish()
    }
}
