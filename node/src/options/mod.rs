//! The command line of the VNODE: names, defaults, and what contradicts what.
//!
//! Each default is a constant of the package that uses it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Parser;
use miner::DeviceChoice;
use primitives::{Address, U256};
use rpc::Modules;
use rpc::server::{Cors, Hosts};

use crate::accounts::AccountCommand;
use crate::console::Endpoint;
use crate::limits::LimitOptions;
use crate::txpool::TxPoolOptions;

/// Peer-to-peer port.
pub(crate) const PORT_DEFAULT: u16 = 30333;
/// Least and greatest `--verbosity`.
const VERBOSITY_MAX: u8 = 5;

/// A base-chain node: chain, pool, mining, JSON-RPC.
#[derive(Clone, Debug, Parser)]
#[command(name = "vnode", version, about, max_term_width = 100)]
pub struct VnodeOptions {
    /// What to do instead of running the node
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Run the local development network: id 100, difficulty 512, ten funded accounts; the same
    /// as --network dev
    #[arg(long, global = true)]
    pub dev: bool,
    /// The network [default: what the data directory was initialised with]
    #[arg(long, value_name = "NAME", global = true)]
    pub network: Option<Network>,
    /// Id that peers and net_version see [default: the network's]
    #[arg(long, value_name = "N", global = true)]
    pub networkid: Option<u64>,
    /// Run the network of this genesis file; `init` once does the same for good
    #[arg(long, value_name = "FILE", global = true)]
    pub genesis: Option<PathBuf>,
    /// Folder for chain, accounts and socket
    /// [default: ~/.moac; ~/.moac/testnet and ~/.moac/devnet for the test and the dev network]
    #[arg(long, value_name = "DIR", global = true)]
    pub datadir: Option<PathBuf>,
    /// Memory for cached pages of the database, in MiB
    #[arg(long, value_name = "MIB", global = true, default_value_t = store::CACHE_BYTES_DEFAULT >> 20)]
    pub cache: usize,

    /// Folder of the key files [default: keystore in the data directory]
    #[arg(long, value_name = "DIR", global = true)]
    pub keystore: Option<PathBuf>,
    /// Accounts to unlock for good, by address or number in `account list`, separated by commas
    #[arg(long, value_name = "ACCOUNTS", value_delimiter = ',')]
    pub unlock: Vec<AccountRef>,
    /// File with a password in each line, for --unlock in its order, and for `account`
    #[arg(long, value_name = "FILE", global = true)]
    pub password: Option<PathBuf>,
    /// Encrypt new key files with little memory and time, at the price of safety
    #[arg(long, global = true)]
    pub lightkdf: bool,

    /// Mine
    #[arg(long)]
    pub mine: bool,
    /// CPU threads that search; 0: work is only handed out [default: all, at most 2 with --dev]
    #[arg(long, value_name = "N")]
    pub minerthreads: Option<usize>,
    /// What searches: auto, cpu, gpu, gpu:N
    #[arg(long = "miner.device", value_name = "DEVICE", default_value_t = DeviceChoice::Auto)]
    pub miner_device: DeviceChoice,
    /// Full dataset for CPU threads: never, memory, or disk (needs --ethash.dagdir)
    /// [default: never with --dev, else memory; disk where --ethash.dagdir is given]
    #[arg(long = "miner.dataset", value_name = "WHERE")]
    pub miner_dataset: Option<DatasetChoice>,
    /// Folder of dataset files (full-R23-...)
    #[arg(long = "ethash.dagdir", value_name = "DIR")]
    pub ethash_dagdir: Option<PathBuf>,
    /// Who is paid for mined blocks [default: the first account]
    #[arg(long, value_name = "ADDRESS")]
    pub moacbase: Option<Address>,
    /// Text in mined blocks, at most 32 bytes [default: name and version]
    #[arg(long, value_name = "TEXT")]
    pub extradata: Option<String>,
    /// Cheapest gas price taken from others, in sha, whatever --txpool.pricelimit says
    /// [default: while mining 18000000000, 0 with --dev]
    #[arg(long, value_name = "SHA")]
    pub gasprice: Option<U256>,
    /// Gas limit that mined blocks steer to
    #[arg(long, value_name = "GAS", default_value_t = chain::spec::GAS_TARGET_DEFAULT)]
    pub targetgaslimit: u64,

    /// The transaction pool
    #[command(flatten)]
    pub txpool: TxPoolOptions,

    /// Serve JSON-RPC over HTTP
    #[arg(long)]
    pub rpc: bool,
    /// HTTP listening address
    #[arg(long, value_name = "IP", default_value = rpc::server::http::HOST)]
    pub rpcaddr: String,
    /// HTTP listening port; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = rpc::server::http::PORT)]
    pub rpcport: u16,
    /// Modules served over HTTP
    #[arg(long, value_name = "LIST", default_value = "chain3,mc,net")]
    pub rpcapi: Modules,
    /// Origins whose pages may call, separated by commas; * for all
    #[arg(long, value_name = "DOMAIN", default_value = "")]
    pub rpccorsdomain: Cors,
    /// Names under which HTTP and WebSockets may be spoken to, separated by commas; * for all. Addresses in numbers
    /// always may
    #[arg(long, value_name = "NAMES", default_value = "localhost")]
    pub rpcvhosts: Hosts,
    /// Answer methods under their own names alone, not under eth_ and web3_
    #[arg(long = "rpc.noalias")]
    pub rpc_noalias: bool,
    /// Give the pending block its number, for pool software that wants one; else it is null
    #[arg(long = "rpc.pendingnumber")]
    pub rpc_pendingnumber: bool,

    /// Serve JSON-RPC over WebSockets
    #[arg(long)]
    pub ws: bool,
    /// WebSocket listening address
    #[arg(long, value_name = "IP", default_value = rpc::server::http::HOST)]
    pub wsaddr: String,
    /// WebSocket listening port; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = rpc::server::ws::PORT)]
    pub wsport: u16,
    /// Modules served over WebSockets
    #[arg(long, value_name = "LIST", default_value = "chain3,mc,net")]
    pub wsapi: Modules,
    /// Origins whose pages may connect, separated by commas; * for all
    #[arg(long, value_name = "ORIGINS", default_value = "")]
    pub wsorigins: Cors,

    /// Path of the local socket [default: vnode.ipc in the data directory]
    #[arg(long, value_name = "PATH", global = true)]
    pub ipcpath: Option<PathBuf>,
    /// Serve no local socket
    #[arg(long)]
    pub ipcdisable: bool,
    /// Bounds of the servers.
    #[command(flatten)]
    pub limits: LimitOptions,

    /// Serve work to miners by Stratum
    #[arg(long)]
    pub stratum: bool,
    /// Stratum listening address
    #[arg(long, value_name = "IP", default_value = crate::stratum::HOST)]
    pub stratumaddr: String,
    /// Stratum listening port; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = crate::stratum::PORT)]
    pub stratumport: u16,
    /// Difficulty of a worker's first shares, in hashes; it follows the worker's speed
    #[arg(long = "stratum.difficulty", value_name = "N", default_value_t = crate::stratum::DIFFICULTY, value_parser = clap::value_parser!(u64).range(1..))]
    pub stratum_difficulty: u64,
    /// Password that Stratum logins must give [default: any will do]
    #[arg(long = "stratum.password", value_name = "TEXT")]
    pub stratum_password: Option<String>,
    /// Most Stratum connections
    #[arg(long = "stratum.maxconnections", value_name = "N", default_value_t = crate::stratum::CONNECTIONS_MAX)]
    pub stratum_maxconnections: usize,
    /// Serve the workers' statistics there, as JSON and for Prometheus, as in 127.0.0.1:8009
    #[arg(long = "stratum.status", value_name = "ADDRESS:PORT")]
    pub stratum_status: Option<SocketAddr>,

    /// Settings of the service for SCS servers, as JSON [default: vnodeconfig.json where there is one]
    #[arg(long, value_name = "FILE")]
    pub vnodeconfig: Option<PathBuf>,
    /// File with the node's own key, 64 hex digits [default: nodekey in the data directory]
    #[arg(long, value_name = "FILE")]
    pub nodekey: Option<PathBuf>,
    /// The node's own key, as 64 hex digits
    #[arg(long, value_name = "HEX", conflicts_with = "nodekey")]
    pub nodekeyhex: Option<String>,
    /// Look for no peers
    #[arg(long)]
    pub nodiscover: bool,
    /// Peer-to-peer port
    #[arg(long, value_name = "PORT", default_value_t = PORT_DEFAULT)]
    pub port: u16,

    /// Log: 0 nothing, 1 errors, 2 warnings, 3 what happens, 4 details, 5 everything
    #[arg(long, value_name = "LEVEL", global = true, default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=VERBOSITY_MAX as i64))]
    pub verbosity: u8,
    /// Log as JSON, a line an event
    #[arg(long = "log.json", global = true)]
    pub log_json: bool,
}

/// What the binary does instead of running the node.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Make the data directory one of the network that a genesis file describes
    Init {
        /// Genesis file in geth's form
        file: PathBuf,
    },
    /// Take blocks from a file; blocks that are there already are passed over
    Import {
        /// Stream of RLP blocks; - for standard input
        file: PathBuf,
    },
    /// Write blocks to a file
    Export {
        /// The file, written whole or not at all; - for standard output
        file: PathBuf,
        /// First block [default: 0]
        #[arg(value_parser = number)]
        first: Option<u64>,
        /// Last block [default: the head]
        #[arg(value_parser = number)]
        last: Option<u64>,
    },
    /// Look after the database
    #[command(subcommand)]
    Db(DbCommand),
    /// Write the state after a block as JSON: each address with balance, nonce, code and storage
    Dump {
        /// The block's number, or latest
        block: HeightRef,
        /// The file, written whole or not at all; - for standard output
        #[arg(default_value = "-")]
        file: PathBuf,
    },
    /// Make, list and change the accounts of the key files
    #[command(subcommand)]
    Account(AccountCommand),
    /// Talk to a running node: methods by name, with completion and history
    Attach {
        /// The node: path of its socket, or an http:// or ws:// URL [default: the local socket of the
        /// data directory]
        endpoint: Option<Endpoint>,
    },
    /// Call one method of a running node. Ends with 0 and prints the result, with 1 where the node
    /// answers with an error, with 2 where it cannot be asked
    Rpc {
        /// The node: path of its socket, or an http:// or ws:// URL [default: the local socket of the
        /// data directory]
        #[arg(long, value_name = "ENDPOINT")]
        endpoint: Option<Endpoint>,
        /// Name of the method: mc_blockNumber, or mc.blockNumber
        method: String,
        /// Its parameters: JSON where it is valid JSON, otherwise text
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        params: Vec<String>,
    },
    /// Answer other people's test vectors: a JSON request a line in, a JSON reply a line out
    Testvec {
        /// What the requests are about
        kind: crate::testvec::Kind,
    },
}

/// What is done with the database.
#[derive(Clone, Debug, PartialEq, Eq, clap::Subcommand)]
pub enum DbCommand {
    /// Compare everything stored with the roots and hashes of the blocks; a line for each fault
    Check {
        /// The state of every block too, not the head's alone: holds the state in memory
        #[arg(long)]
        full: bool,
    },
    /// List the tables with their rows and bytes
    Stats,
}

/// A network that the program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Network {
    /// The main network, id 99.
    Main,
    /// The test network, id 101.
    Test,
    /// The local development network, id 100.
    Dev,
}

/// A height as it is named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeightRef {
    /// The head's.
    Latest,
    /// A number.
    Number(u64),
}

impl FromStr for HeightRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "latest" {
            return Ok(Self::Latest);
        }
        number(text).map(Self::Number)
    }
}

/// A block number, in decimal or, after 0x, in hexadecimal digits.
fn number(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| "expected a block number".to_owned())
}

/// An account as it is named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountRef {
    /// By its address.
    Address(Address),
    /// By its number in the list of the key files, from 0.
    Number(usize),
}

impl FromStr for AccountRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let number = text.parse().map(Self::Number);
        number.map_err(|_| "expected an address (40 hexadecimal digits) or a number".to_owned())
    }
}

impl fmt::Display for AccountRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address:#x}"),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// Where CPU threads get the full dataset from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DatasetChoice {
    /// They hash from the light cache.
    Never,
    /// Generated in memory.
    Memory,
    /// A file in `--ethash.dagdir`.
    Disk,
}

/// Options that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// Two networks.
    #[error("--dev and --network {} contradict each other", network_name(*.0))]
    TwoNetworks(Network),
    /// A file for a network whose block 0 is built in.
    #[error("a genesis file ({}) and the development network contradict each other: its block 0 is built in", .0.display())]
    DevGenesis(PathBuf),
    /// Two files for block 0.
    #[error("`init` takes one genesis file, got {} and, with --genesis, {}", .0.display(), .1.display())]
    TwoGenesisFiles(PathBuf, PathBuf),
    /// Nobody to pay.
    #[error("--mine needs --moacbase ADDRESS: the network {0} has no account that could be paid instead")]
    NoBeneficiary(String),
    /// Disk without a folder.
    #[error("--miner.dataset disk needs --ethash.dagdir DIR")]
    DatasetFolder,
    /// Too long for a header.
    #[error("--extradata has {got} bytes, at most {max} are allowed")]
    ExtraData {
        /// Its length.
        got: usize,
        /// The most.
        max: usize,
    },
    /// No home directory to put the data in.
    #[error("no home directory for the chain: give --datadir DIR")]
    NoHome,
}

impl VnodeOptions {
    /// Checks what the parser cannot.
    ///
    /// # Errors
    /// [`OptionsError`] for the first contradiction.
    pub fn check(&self) -> Result<(), OptionsError> {
        self.network()?;
        if self.miner_dataset == Some(DatasetChoice::Disk) && self.ethash_dagdir.is_none() {
            return Err(OptionsError::DatasetFolder);
        }
        let (got, max) = (self.extra_data().len(), chain::rules::EXTRA_DATA_BYTES_MAX);
        if got > max {
            return Err(OptionsError::ExtraData { got, max });
        }
        Ok(())
    }

    /// The network that was asked for by name.
    ///
    /// # Errors
    /// [`OptionsError`] when two were, or a file beside the development network.
    pub fn network(&self) -> Result<Option<Network>, OptionsError> {
        let network = match (self.dev, self.network) {
            (true, Some(other)) if other != Network::Dev => return Err(OptionsError::TwoNetworks(other)),
            (true, _) => Some(Network::Dev),
            (false, network) => network,
        };
        match &self.genesis {
            Some(file) if network == Some(Network::Dev) => Err(OptionsError::DevGenesis(file.clone())),
            _ => Ok(network),
        }
    }

    /// The data directory.
    ///
    /// # Errors
    /// [`OptionsError`] without `--datadir` and without a home, and for two networks.
    pub fn data_directory(&self) -> Result<PathBuf, OptionsError> {
        if let Some(directory) = &self.datadir {
            return Ok(directory.clone());
        }
        let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
        let main = home.ok_or(OptionsError::NoHome)?.join(".moac");
        Ok(match self.network()? {
            None | Some(Network::Main) => main,
            Some(Network::Test) => main.join("testnet"),
            Some(Network::Dev) => main.join("devnet"),
        })
    }

    /// Extra data of mined blocks.
    pub fn extra_data(&self) -> Vec<u8> {
        let default = || format!("vnode/{}", env!("CARGO_PKG_VERSION"));
        self.extradata.clone().unwrap_or_else(default).into_bytes()
    }

    /// CPU threads that search.
    pub fn threads(&self) -> usize {
        /// The development network's blocks need few hashes; leave the machine to its user.
        const DEV_THREADS: usize = 2;
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        self.minerthreads
            .unwrap_or(if self.dev { all.min(DEV_THREADS) } else { all })
    }

    /// Where CPU threads get the full dataset from.
    pub fn dataset(&self) -> miner::DatasetPolicy {
        let folder = || self.ethash_dagdir.clone();
        match (self.miner_dataset, folder()) {
            (Some(DatasetChoice::Never), _) => miner::DatasetPolicy::Never,
            (Some(DatasetChoice::Memory), _) => miner::DatasetPolicy::Memory,
            (None | Some(DatasetChoice::Disk), Some(folder)) => miner::DatasetPolicy::Disk(folder),
            (_, None) if self.dev => miner::DatasetPolicy::Never,
            (_, None) => miner::DatasetPolicy::Memory,
        }
    }
}

/// The network's name on the command line.
pub(crate) fn network_name(network: Network) -> &'static str {
    match network {
        Network::Main => "main",
        Network::Test => "test",
        Network::Dev => "dev",
    }
}

/// Whether an address is of this machine alone.
pub(crate) fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().is_loopback()
}

#[cfg(test)]
mod tests;
