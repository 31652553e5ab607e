//! The command line of `vnode`: the options of the node, and which of them contradict each other.
//!
//! Each default is a constant of the package that uses it. Knows no other module of this package
//! that reads options: those depend on this one.
//!
//! | subject | module |
//! |---|---|
//! | subcommands | `command` |
//! | types of single values: network, height, account | `values` |
//! | where a running node is reached | `endpoint` |
//! | options in a file | `file` |
//! | who may use the JSON-RPC servers, and how often | `access` |
//! | limits of the JSON-RPC servers | `limits` |
//! | the transaction pool | `txpool` |
//! | the service for SCS servers | `scs` |
//! | the peer-to-peer network | `peers` |
//! | the log | `log` |
//! | headings, short help, the options that a command shows | `help` |
//! | options that have no effect | `effect` |
//! | notices of work | `notify` |
//! | test vectors, and the command lines of geth's `evm` | package `testvec` |

mod access;
mod command;
mod effect;
mod endpoint;
mod file;
mod help;
mod limits;
mod log;
mod notify;
mod peers;
mod scs;
mod txpool;
mod values;

pub use access::AccessOptions;
pub use command::{
    AccountCommand, ClientAccess, DbCommand, ExportFormat, NodeProgram, PARTITION_BLOCKS, PERIOD_SECS_MAX,
    SHELLS, TABLES, VnodeCommand,
};
pub use endpoint::{NodeEndpoint, NodeEndpointError};
pub(crate) use file::arguments_of;
pub use file::{OptionsFileError, parse_options, write_options};
pub use help::vnode_command;
pub use limits::{LimitOptions, Seconds};
pub use log::LogOptions;
pub(crate) use notify::WorkNotify;
pub(crate) use peers::NodeIdentity;
pub use peers::{BootNodes, DnsLists, PeerOptions};
pub use scs::ScsOptions;
pub use txpool::TxPoolOptions;
pub use values::{AccountRef, DevSeal, HeightRef, MinerDatasetOption, Network, SyncMode, states_of};
pub(crate) use values::{DevFork, IndexChoice};

use std::net::SocketAddr;
use std::path::PathBuf;

use chain::import::limits::{MESS_HEAD_AGE_SECS_MAX, REORG_DEPTH_MAX};
use chain::import::{ForkLimits, StateRetention};
use clap::Parser;
use daemon::is_loopback_host;
use daemon::tls::TlsFiles;
use engine::{DeviceChoice, SealDevice};
use primitives::{Address, U256, parse_address};
use rpc::Modules;
use rpc::server::{Cors, Hosts};

pub use values::OptionValueError;
use values::{no_engine, parse_states};

/// Id of a development network for tools that expect anvil.
const ANVIL_CHAIN_ID: u64 = 31_337;
/// One above the highest id of a development network. From there on the ids are those of
/// application chains.
const DEV_CHAIN_IDS_END: u64 = 1 << 50;

/// Highest `--dev.period`, in seconds.
const DEV_PERIOD_MAX: u64 = 86_400;

/// Highest `--verbosity`; the lowest is 0.
const VERBOSITY_MAX: u8 = 5;

/// A base-chain node: chain, transaction pool, mining, JSON-RPC.
#[derive(Clone, Debug, Parser)]
#[command(name = "vnode", version, max_term_width = 100, args_override_self = true)]
pub struct VnodeOptions {
    /// The command to do instead of running the node
    #[command(subcommand)]
    pub command: Option<VnodeCommand>,

    /// TOML file with options: each key is the long name of an option. The command line wins.
    /// `vnode dumpconfig` writes one
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Run the local development network: id 100, difficulty 512, ten funded accounts; the same
    /// as --network dev
    #[arg(long, global = true)]
    pub dev: bool,
    /// Seals of the development network: ethash, or instant, which needs no
    /// seals and gives each transaction a block at once
    #[arg(long = "dev.seal", value_name = "SEAL", default_value = "ethash")]
    pub dev_seal: DevSeal,
    /// With blocks without seals, make a block every N seconds, with the transactions that came
    /// meanwhile; 0: make no block without being asked [default: one for each transaction]
    #[arg(long = "dev.period", value_name = "N", value_parser = clap::value_parser!(u64).range(..=DEV_PERIOD_MAX))]
    pub dev_period: Option<u64>,
    /// Id of a new development network in signatures and as its network id
    /// [default: 100, or 31337 with --dev.anvil]
    #[arg(long = "dev.chainid", value_name = "N", global = true, value_parser = clap::value_parser!(u64).range(1..DEV_CHAIN_IDS_END))]
    pub dev_chainid: Option<u64>,
    /// Rules of a new development network: those of Ethereum up to this fork, without base fee and
    /// random value [default: the public network's]
    #[arg(long = "dev.fork", value_name = "FORK", global = true, ignore_case = true)]
    pub dev_fork: Option<DevFork>,
    /// With --dev, behave as tools for anvil and Hardhat expect: blocks at once (--dev.seal
    /// instant) that pay nobody, the modules evm, hardhat, anvil, debug, trace, txpool and
    /// personal, a client version that begins with anvil, and a new chain with the id 31337 whose
    /// first block is made now
    #[arg(long = "dev.anvil", conflicts_with_all = ["dev_seal", "mine"])]
    pub dev_anvil: bool,
    /// Network to run [default: the one that the data directory was initialised with]
    #[arg(long, value_name = "NAME", global = true)]
    pub network: Option<Network>,
    /// Network id that peers see and `net_version` returns [default: the network's own]
    #[arg(long, value_name = "N", global = true)]
    pub networkid: Option<u64>,
    /// Run the network that this genesis file describes; `vnode init` stores the network in the
    /// data directory, so that later starts need no option
    #[arg(long, value_name = "FILE", global = true)]
    pub genesis: Option<PathBuf>,
    /// Folder for the chain (chain.redb, chain.redb.wal, chain.blocks), the accounts and the local
    /// socket [default: ~/.moac, or its folder testnet, devnet, classic or mordor]
    #[arg(long, value_name = "DIR", global = true)]
    pub datadir: Option<PathBuf>,
    /// Folder of Era1 files whose blocks the node serves: it stores no copy of the old blocks that
    /// are in it. Every later start of the data directory needs the folder, too
    #[arg(long, value_name = "FOLDER", global = true)]
    pub ancient: Option<PathBuf>,
    /// Past states that are kept: archive for all; recent or recent:BLOCKS for those after the
    /// newest BLOCKS blocks (100000), which are pruned by and by [default: archive]
    #[arg(long, value_name = "STATES", global = true, value_parser = parse_states)]
    pub state: Option<StateRetention>,
    /// Index that is built beside the chain: address, for the transactions, calls, rewards and
    /// tokens of each account (addresses.redb); blocks that are there already are indexed in the
    /// background. It needs all past states, so --syncmode is full with it
    #[arg(long, value_name = "INDEX")]
    pub index: Option<IndexChoice>,
    /// A node with an empty folder: snap takes the state of a recent block from peers, and the
    /// blocks below it with their receipts; full executes all blocks [default: snap on classic and
    /// mordor, full elsewhere]
    #[arg(long, value_name = "MODE")]
    pub syncmode: Option<SyncMode>,
    /// Memory for cached pages of the database, in MiB. Half as much again, up to 128, keeps blocks
    /// and receipts that clients ask for
    #[arg(long, value_name = "MIB", global = true, default_value_t = store::CACHE_BYTES_DEFAULT >> 20)]
    pub cache: usize,

    /// Device that checks the seals of headers that come in bulk, when a node catches up or imports
    /// files: auto, cpu or gpu:N. auto uses a hardware card once some thousand headers have come,
    /// unless there is --mine; a card that fails leaves the seals to the processor
    #[arg(long = "verify.device", value_name = "DEVICE", global = true, default_value_t = SealDevice::Cpu)]
    pub verify_device: SealDevice,
    /// For tests only: take every seal as right. All other rules are checked. Refused on main,
    /// test, classic and mordor; the data directory needs this option at every later start; nodes
    /// are looked for only if --bootnodes names some. Not with --mine or --stratum
    #[arg(long, global = true)]
    pub fakepow: bool,
    /// Deepest reorganization that is done, in blocks of the chain that it takes back; a heavier
    /// branch that leaves the chain further below is refused
    #[arg(long, value_name = "BLOCKS", global = true, default_value_t = REORG_DEPTH_MAX)]
    pub maxreorg: u64,
    /// Apply MESS (ECBP-1100): a heavier branch that leaves the chain long ago needs up to 31 times
    /// the work of the blocks that it takes back. Ethereum Classic has it off since Spiral
    #[arg(long, global = true)]
    pub mess: bool,

    /// Folder of the key files [default: keystore in the data directory]
    #[arg(long, value_name = "DIR", global = true)]
    pub keystore: Option<PathBuf>,
    /// Accounts to unlock until the node stops, separated by commas; each is an address or a number
    /// from `account list`
    #[arg(long, value_name = "ACCOUNTS", value_delimiter = ',')]
    pub unlock: Vec<AccountRef>,
    /// Unlock accounts even if other machines can reach this node over HTTP or WebSockets; whoever
    /// reaches it can spend from them then
    #[arg(long = "allow-insecure-unlock")]
    pub allow_insecure_unlock: bool,
    /// File with one password a line: for the accounts of --unlock in their order, or for the
    /// `account` command
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        env = "VNODE_PASSWORD",
        hide_env_values = true
    )]
    pub password: Option<PathBuf>,
    /// Encrypt new key files with less memory and time, which is less safe
    #[arg(long, global = true)]
    pub lightkdf: bool,

    /// Mine
    #[arg(long)]
    pub mine: bool,
    /// CPU threads that mine; 0: this process does not mine, it only gives work to other miners
    /// [default: all, at most 2 with --dev]
    #[arg(long, visible_alias = "miner.threads", value_name = "N")]
    pub minerthreads: Option<usize>,
    /// Give work to miners, and mine, on a public network without peers. By default there is no
    /// work while no peer was there for 10 minutes (the time of the head counts at the start), and
    /// no first work while the chain is more than 64 blocks behind those of peers
    #[arg(long = "miner.alone")]
    pub miner_alone: bool,
    /// Post each new work to these URLs, separated by commas: header hash, seed hash, boundary and
    /// number; with full at the end of the list the header that is to be sealed
    #[arg(long = "miner.notify", value_name = "URL[,URL][,full]")]
    pub miner_notify: Option<WorkNotify>,
    /// Devices that mine: auto, all, cpu, gpu, gpu:0,2 or cpu,gpu:0; auto uses a hardware card, or
    /// the CPU if there is no card
    #[arg(long = "miner.device", value_name = "DEVICE", default_value_t = DeviceChoice::Auto)]
    pub miner_device: DeviceChoice,
    /// Place of the full dataset for CPU threads: never (they use the light cache), memory, or
    /// disk (needs --ethash.dagdir)
    /// [default: never with --dev, otherwise memory; disk if --ethash.dagdir is given]
    #[arg(long = "miner.dataset", value_name = "WHERE")]
    pub miner_dataset: Option<MinerDatasetOption>,
    /// Folder of dataset files (full-R23-...)
    #[arg(long = "ethash.dagdir", value_name = "DIR")]
    pub ethash_dagdir: Option<PathBuf>,
    /// Address that receives the rewards of mined blocks [default: the first account]
    #[arg(long, visible_alias = "miner.etherbase", value_name = "ADDRESS", value_parser = parse_address)]
    pub moacbase: Option<Address>,
    /// Text to put into mined blocks, at most 32 bytes [default: name and version]
    #[arg(long, value_name = "TEXT")]
    pub extradata: Option<String>,
    /// Lowest gas price accepted from others, in sha; overrides --txpool.pricelimit
    /// [default: 18000000000 while mining, 0 with --dev]
    #[arg(long, value_name = "SHA")]
    pub gasprice: Option<U256>,
    /// Gas limit that mined blocks move towards
    #[arg(long, value_name = "GAS", default_value_t = chain::spec::GAS_TARGET_DEFAULT)]
    pub targetgaslimit: u64,

    /// The transaction pool.
    #[command(flatten)]
    pub txpool: TxPoolOptions,

    /// Ethereum's engine API, which does not exist here
    #[arg(long = "authrpc.addr", aliases = ["authrpc.port", "authrpc.vhosts", "authrpc.jwtsecret"],
        hide = true, value_parser = no_engine)]
    pub authrpc: Option<String>,
    /// Serve JSON-RPC over HTTP
    #[arg(long, visible_alias = "http")]
    pub rpc: bool,
    /// HTTP listening address; localhost is 127.0.0.1, and `::1` if there is one
    #[arg(long, visible_alias = "http.addr", value_name = "IP", default_value = rpc::server::http::HOST)]
    pub rpcaddr: String,
    /// HTTP listening port; 0 chooses a free port
    #[arg(long, visible_alias = "http.port", value_name = "PORT", default_value_t = rpc::server::http::PORT)]
    pub rpcport: u16,
    /// Modules served over HTTP
    #[arg(
        long,
        visible_alias = "http.api",
        value_name = "LIST",
        default_value = "chain3,mc,net"
    )]
    pub rpcapi: Modules,
    /// Web origins that may call over HTTP, separated by commas; * allows all
    #[arg(
        long,
        visible_alias = "http.corsdomain",
        value_name = "DOMAIN",
        default_value = ""
    )]
    pub rpccorsdomain: Cors,
    /// Host names that HTTP and WebSocket requests may use, separated by commas; * allows all.
    /// Numeric addresses are always allowed
    #[arg(
        long,
        visible_alias = "http.vhosts",
        value_name = "NAMES",
        default_value = "localhost"
    )]
    pub rpcvhosts: Hosts,
    /// Answer methods under their own names only, not under the aliases eth_ and web3_
    #[arg(long = "rpc.noalias")]
    pub rpc_noalias: bool,
    /// Give the pending block a number, which some pool software needs, or null
    /// [default: a number on networks of Ethereum's family, elsewhere under the names eth_ only]
    #[arg(long = "rpc.pendingnumber", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true")]
    pub rpc_pendingnumber: Option<bool>,

    /// Serve JSON-RPC over WebSockets
    #[arg(long)]
    pub ws: bool,
    /// WebSocket listening address
    #[arg(long, visible_alias = "ws.addr", value_name = "IP", default_value = rpc::server::http::HOST)]
    pub wsaddr: String,
    /// WebSocket listening port; 0 chooses a free port. With port and address of the HTTP listener,
    /// both are served there
    #[arg(long, visible_alias = "ws.port", value_name = "PORT", default_value_t = rpc::server::ws::PORT)]
    pub wsport: u16,
    /// Modules served over WebSockets
    #[arg(
        long,
        visible_alias = "ws.api",
        value_name = "LIST",
        default_value = "chain3,mc,net"
    )]
    pub wsapi: Modules,
    /// Web origins that may connect, separated by commas; * allows all
    #[arg(
        long,
        visible_alias = "ws.origins",
        value_name = "ORIGINS",
        default_value = ""
    )]
    pub wsorigins: Cors,

    /// Path of the local socket, which serves every module; on Windows a named pipe
    /// [default: vnode.ipc in the data directory]
    #[arg(long, value_name = "PATH", global = true)]
    pub ipcpath: Option<PathBuf>,
    /// Do not serve the local socket
    #[arg(long)]
    pub ipcdisable: bool,
    /// The clients that may use the JSON-RPC servers.
    #[command(flatten)]
    pub access: AccessOptions,
    /// Limits of the JSON-RPC servers.
    #[command(flatten)]
    pub limits: LimitOptions,

    /// Give work to miners over Stratum
    #[arg(long)]
    pub stratum: bool,
    /// Stratum listening address
    #[arg(long, value_name = "IP", default_value = stratum_server::HOST)]
    pub stratumaddr: String,
    /// Stratum listening port; 0 chooses a free port
    #[arg(long, value_name = "PORT", default_value_t = stratum_server::PORT)]
    pub stratumport: u16,
    /// Difficulty of a worker's first shares, in hashes; later it adapts to the worker's speed
    #[arg(long = "stratum.difficulty", value_name = "N", default_value_t = stratum_server::DIFFICULTY, value_parser = clap::value_parser!(u64).range(1..))]
    pub stratum_difficulty: u64,
    /// Password that Stratum logins must give, of 12 characters or more
    /// [default: any password is accepted]
    #[arg(
        long = "stratum.password",
        value_name = "TEXT",
        env = "VNODE_STRATUM_PASSWORD",
        hide_env_values = true
    )]
    pub stratum_password: Option<String>,
    /// File with the certificates of the Stratum server (PEM), which then speaks TLS
    #[arg(long = "stratum.tls.cert", value_name = "FILE", requires = "stratum_tls_key")]
    pub stratum_tls_cert: Option<PathBuf>,
    /// File with the private key of the Stratum server (PEM)
    #[arg(
        long = "stratum.tls.key",
        value_name = "FILE",
        requires = "stratum_tls_cert",
        env = "VNODE_STRATUM_TLS_KEY",
        hide_env_values = true
    )]
    pub stratum_tls_key: Option<PathBuf>,
    /// Most Stratum connections
    #[arg(long = "stratum.maxconnections", value_name = "N", default_value_t = stratum_server::CONNECTIONS_MAX)]
    pub stratum_maxconnections: usize,
    /// Most Stratum connections of one address
    #[arg(long = "stratum.maxperaddress", value_name = "N", default_value_t = stratum_server::ADDRESS_CONNECTIONS_MAX)]
    pub stratum_maxperaddress: usize,
    /// Time for which an address is banned from Stratum if most of its shares are bad, in seconds;
    /// 0: never, for a server behind a proxy
    #[arg(long = "stratum.bantime", value_name = "SECONDS", default_value_t = stratum_server::BAN_SECS, value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub stratum_bantime: u64,
    /// Serve the workers' statistics at this address, as JSON and for Prometheus; for example
    /// 127.0.0.1:8009
    #[arg(long = "stratum.status", value_name = "ADDRESS:PORT")]
    pub stratum_status: Option<SocketAddr>,

    /// Serve metrics of the node for Prometheus at this address; for example 127.0.0.1:6060
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,

    /// Serve a page for browsers at this address, for example 127.0.0.1:8580: hashrates now and
    /// over the last day, the chain, workers, rewards, and an explorer of blocks, transactions and
    /// accounts
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub dashboard: Option<SocketAddr>,

    /// JSON file with the settings of the service for SCS servers
    /// [default: vnodeconfig.json in the working directory, if it exists]
    #[arg(long, value_name = "FILE")]
    pub vnodeconfig: Option<PathBuf>,
    /// The service for SCS servers.
    #[command(flatten)]
    pub scs: ScsOptions,
    /// File with the node's own key, 64 hex digits [default: nodekey in the data directory]
    #[arg(long, value_name = "FILE", env = "VNODE_NODEKEY", hide_env_values = true)]
    pub nodekey: Option<PathBuf>,
    /// The node's own key, as 64 hex digits
    #[arg(
        long,
        value_name = "HEX",
        conflicts_with = "nodekey",
        env = "VNODE_NODEKEYHEX",
        hide_env_values = true
    )]
    pub nodekeyhex: Option<String>,
    /// The peer-to-peer network.
    #[command(flatten)]
    pub peers: PeerOptions,

    /// Amount of the log: 0 nothing, 1 errors, 2 warnings, 3 events, 4 details, 5 everything
    #[arg(long, value_name = "LEVEL", global = true, default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=VERBOSITY_MAX as i64))]
    pub verbosity: u8,
    /// The log.
    #[command(flatten)]
    pub log: LogOptions,

    /// Warnings about options that were given and have no effect.
    #[arg(skip)]
    pub without_effect: Vec<String>,
}

/// Options that contradict each other, or lack another option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// `--dev` together with another `--network`.
    #[error("--dev and --network {} contradict each other", .0.name())]
    TwoNetworks(Network),
    /// `--unlock` on a node that other machines can reach.
    #[error(
        "--unlock and {0} contradict each other: whoever reaches this node could spend from the accounts; --allow-insecure-unlock allows it"
    )]
    InsecureUnlock(&'static str),
    /// `--dev.seal instant` or `--dev.anvil` on another network than the development network.
    #[error("{0} needs the development network (--dev)")]
    SealNetwork(&'static str),
    /// `--fakepow` on a public network. Holds the network's name.
    #[error("--fakepow is for networks of one's own: got {0}, where blocks without a seal are worth nothing")]
    FakePowNetwork(String),
    /// `--fakepow` together with an option that hands out work.
    #[error("--fakepow and {0} contradict each other: without a check of seals there is no mining")]
    FakePowMine(&'static str),
    /// `--dev.seal instant` together with `--mine`.
    #[error("--dev.seal instant and --mine contradict each other: blocks without seals need no miner")]
    InstantMine,
    /// `--dev.period` without `--dev.seal instant`.
    #[error("--dev.period is for blocks without seals: add --dev.seal instant")]
    PeriodSeal,
    /// A genesis file for the development network, whose block 0 is built in.
    #[error("the development network takes no genesis file, because its block 0 is built in: got {}", .0.display())]
    DevGenesis(PathBuf),
    /// `--index address` on a node that does not have all past states.
    #[error("--index address and {0} contradict each other: blocks are run again on their past states")]
    IndexStates(&'static str),
    /// Two genesis files.
    #[error("`init` takes one genesis file: got {} and, with --genesis, {}", .0.display(), .1.display())]
    TwoGenesisFiles(PathBuf, PathBuf),
    /// `--mine` on a network without accounts, and without `--moacbase`. Holds the network's name.
    #[error("--mine needs --moacbase ADDRESS: the network {0} has no account that could be paid instead")]
    NoBeneficiary(String),
    /// `--miner.dataset disk` without `--ethash.dagdir`.
    #[error("--miner.dataset disk needs --ethash.dagdir DIR")]
    DatasetFolder,
    /// `--extradata` does not fit into a header.
    #[error("--extradata: got {got} bytes, expected at most {max}")]
    ExtraData {
        /// Length of the text, in bytes.
        got: usize,
        /// Longest text that a header takes, in bytes.
        max: usize,
    },
    /// There is no home directory, and no `--datadir` is given.
    #[error("no home directory for the chain: give --datadir DIR")]
    NoHome,
}

impl VnodeOptions {
    /// Warns of options that have no effect: in the log if it has started, else on standard error.
    pub fn warn(&self) {
        for warning in &self.without_effect {
            match tracing::dispatcher::has_been_set() {
                true => tracing::warn!("{warning}"),
                false if self.verbosity > 1 => eprintln!("warning: {warning}"),
                false => {}
            }
        }
    }

    /// Whether the node keeps to itself unless its options name others.
    pub(crate) const fn is_alone(&self) -> bool {
        self.dev || self.fakepow
    }

    /// Limits of what is kept beside the canonical chain.
    pub fn fork_limits(&self) -> ForkLimits {
        ForkLimits {
            reorg_depth_max: Some(self.maxreorg),
            mess_head_age_secs_max: self.mess.then_some(MESS_HEAD_AGE_SECS_MAX),
            ..ForkLimits::default()
        }
    }

    /// The same options with those that `--dev.anvil` stands for.
    #[must_use]
    pub(crate) fn for_anvil(mut self) -> Self {
        if self.dev_anvil {
            let modules: Modules = "txpool,evm,hardhat,anvil,debug,trace,personal"
                .parse()
                .unwrap_or_default();
            self.rpcapi = self.rpcapi.with(&modules);
            self.wsapi = self.wsapi.with(&modules);
            self.dev_seal = DevSeal::Instant;
            self.moacbase = Some(self.moacbase.unwrap_or_default());
        }
        self
    }

    /// The id of a new development network; `None` for the built-in one.
    pub(crate) fn new_dev_chain_id(&self) -> Option<u64> {
        self.dev_chainid
            .or_else(|| self.dev_anvil.then_some(ANVIL_CHAIN_ID))
    }

    /// Checks the contradictions that the parser cannot find.
    ///
    /// # Errors
    /// [`OptionsError`] for the first contradiction.
    pub fn check(&self) -> Result<(), OptionsError> {
        self.network()?;
        let exposed = [
            (self.rpc, &self.rpcaddr, "--rpcaddr"),
            (self.ws, &self.wsaddr, "--wsaddr"),
        ];
        let exposed = exposed
            .into_iter()
            .find(|(is_on, host, _)| *is_on && !is_loopback_host(host));
        if let Some((.., option)) = exposed
            && !self.unlock.is_empty()
            && !self.allow_insecure_unlock
        {
            return Err(OptionsError::InsecureUnlock(option));
        }
        if self.index.is_some() {
            if matches!(self.state, Some(StateRetention::Recent { .. })) {
                return Err(OptionsError::IndexStates("--state recent"));
            }
            if self.syncmode == Some(SyncMode::Snap) {
                return Err(OptionsError::IndexStates("--syncmode snap"));
            }
        }
        if self.dev_seal == DevSeal::Instant && self.mine {
            return Err(OptionsError::InstantMine);
        }
        if self.fakepow {
            match self.network()? {
                None | Some(Network::Dev) => {}
                Some(public) => return Err(OptionsError::FakePowNetwork(public.name().to_owned())),
            }
            let mining = [(self.mine, "--mine"), (self.stratum, "--stratum")];
            if let Some((_, option)) = mining.into_iter().find(|(is_given, _)| *is_given) {
                return Err(OptionsError::FakePowMine(option));
            }
        }
        if self.dev_period.is_some() && self.dev_seal != DevSeal::Instant && !self.dev_anvil {
            return Err(OptionsError::PeriodSeal);
        }
        if self.miner_dataset == Some(MinerDatasetOption::Disk) && self.ethash_dagdir.is_none() {
            return Err(OptionsError::DatasetFolder);
        }
        let (got, max) = (self.extra_data().len(), chain::rules::EXTRA_DATA_BYTES_MAX);
        if got > max {
            return Err(OptionsError::ExtraData { got, max });
        }
        Ok(())
    }

    /// The files for TLS of the Stratum server, if there are any.
    pub fn stratum_tls_files(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            certificates: self.stratum_tls_cert.clone()?,
            key: self.stratum_tls_key.clone()?,
            clients: None,
        })
    }

    /// Whether WebSockets are served on the port of the HTTP listener.
    pub fn ws_on_http(&self) -> bool {
        self.rpc && self.ws && self.rpcport != 0 && self.rpcport == self.wsport && self.rpcaddr == self.wsaddr
    }

    /// The network named by `--network` or `--dev`, if any.
    ///
    /// # Errors
    /// [`OptionsError`] if the two name different networks, and for a genesis file together with
    /// the development network.
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

    /// The data directory: `--datadir`, or the network's default below the home directory.
    ///
    /// # Errors
    /// [`OptionsError`] without `--datadir` if there is no home directory or two networks are
    /// named.
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
            Some(network @ (Network::Classic | Network::Mordor)) => main.join(network.name()),
        })
    }

    /// Extra data of mined blocks.
    pub fn extra_data(&self) -> Vec<u8> {
        let default = || format!("vnode/{}", env!("CARGO_PKG_VERSION"));
        self.extradata.clone().unwrap_or_else(default).into_bytes()
    }

    /// Number of CPU threads that mine.
    pub fn threads(&self) -> usize {
        /// Blocks of the development network need few hashes, so most of the machine stays free.
        const DEV_THREADS: usize = 2;
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        self.minerthreads
            .unwrap_or_else(|| if self.dev { all.min(DEV_THREADS) } else { all })
    }

    /// The place of the full dataset for CPU threads.
    pub fn dataset(&self) -> engine::DatasetPolicy {
        let folder = || self.ethash_dagdir.clone();
        match (self.miner_dataset, folder()) {
            (Some(MinerDatasetOption::Never), _) => engine::DatasetPolicy::Never,
            (Some(MinerDatasetOption::Memory), _) => engine::DatasetPolicy::Memory,
            (None | Some(MinerDatasetOption::Disk), Some(folder)) => engine::DatasetPolicy::Disk(folder),
            (_, None) if self.dev => engine::DatasetPolicy::Never,
            (_, None) => engine::DatasetPolicy::Memory,
        }
    }
}

#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;
