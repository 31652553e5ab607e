//! Types of single values on the command line: a network, a block height, an account.

use std::fmt;
use std::str::FromStr;

use chain::import::{RECENT_STATES_DEFAULT, StateRetention};
use network::NodeTextError;
use primitives::{Address, AddressTextError, U256, parse_address, parse_ether};

/// The fewest recent states that can be asked for: a reorganization cannot go deeper.
const RECENT_STATES_MIN: u64 = 32;

/// A text that is not a value of an option.
#[derive(Debug, thiserror::Error)]
pub enum OptionValueError {
    /// A value has another form.
    #[error("expected {0}")]
    Form(&'static str),
    /// The option is one of the engine API.
    #[error(
        "there is no engine API: the blocks of this node's chains are sealed by proof of work, and no consensus \
         client drives it. Leave --authrpc options out"
    )]
    Engine,
    /// An address has a wrong checksum.
    #[error(transparent)]
    Address(#[from] AddressTextError),
    /// A number is too small or too large, or none.
    #[error("expected {min} to {max}")]
    Range {
        /// The least number.
        min: usize,
        /// The greatest number.
        max: usize,
    },
    /// A number is 0.
    #[error("expected at least 1")]
    Zero,
    /// A text is not a number.
    #[error("expected a number: {0}")]
    Number(#[from] std::num::ParseIntError),
    /// The retention of states is unknown, or keeps too few.
    #[error("expected archive, recent or recent:BLOCKS, with at least {RECENT_STATES_MIN} blocks")]
    States,
    /// An IP address.
    #[error("got {0:?}, expected an IP address, such as 0.0.0.0 or ::")]
    Ip(String),
    /// A block that peers must have.
    #[error("got {0:?}, expected NUMBER=HASH, with a hash of 64 hex digits")]
    RequiredBlock(String),
    /// Too many blocks that peers must have.
    #[error("got {got} blocks, expected at most {max}")]
    RequiredBlocks {
        /// The number of blocks.
        got: usize,
        /// The most blocks.
        max: usize,
    },
    /// A name of a node.
    #[error("got {got:?}, expected 1 to {max} printable characters of ASCII")]
    Name {
        /// The text.
        got: String,
        /// The most characters.
        max: usize,
    },
    /// A node's URL cannot be read.
    #[error("{url}: {error}")]
    Node {
        /// The URL.
        url: String,
        /// Its fault.
        error: NodeTextError,
    },
    /// A node's URL has a name as its host.
    #[error("{url}: host: got {host:?}, expected an IP address")]
    NodeHost {
        /// The URL.
        url: String,
        /// The host.
        host: String,
    },
}

/// A built-in network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Network {
    /// The main network, id 99.
    Main,
    /// The test network, id 101.
    Test,
    /// The local development network, id 100.
    Dev,
    /// Ethereum Classic, network 1, chain 61 (experimental).
    Classic,
    /// Ethereum Classic's test network Mordor, network 7, chain 63 (experimental).
    Mordor,
}

/// The way in which a node with an empty folder gets the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SyncMode {
    /// The state of a recent block comes from peers. Blocks below it are not executed.
    Snap,
    /// All blocks are executed.
    Full,
}

/// The seals of the development network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum DevSeal {
    /// By Ethash.
    #[default]
    Ethash,
    /// Not at all: each transaction gets a block at once.
    Instant,
}

/// An index beside the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum IndexChoice {
    /// The transactions and blocks of each account.
    Address,
}

/// One of Ethereum's forks, for the rules of a development network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DevFork {
    Frontier,
    Homestead,
    #[value(aliases = ["tangerineWhistle", "eip150"])]
    TangerineWhistle,
    #[value(aliases = ["spuriousDragon", "eip158"])]
    SpuriousDragon,
    Byzantium,
    Constantinople,
    Petersburg,
    Istanbul,
    Berlin,
    London,
    Shanghai,
}

impl DevFork {
    /// Its name in the table of Ethereum's forks.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Frontier => "Frontier",
            Self::Homestead => "Homestead",
            Self::TangerineWhistle => "EIP150",
            Self::SpuriousDragon => "EIP158",
            Self::Byzantium => "Byzantium",
            Self::Constantinople => "Constantinople",
            Self::Petersburg => "ConstantinopleFix",
            Self::Istanbul => "Istanbul",
            Self::Berlin => "Berlin",
            Self::London => "London",
            Self::Shanghai => "Shanghai",
        }
    }
}

/// An amount of coins on the command line, in sha.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coins(pub U256);

impl FromStr for Coins {
    type Err = OptionValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_decimal = text.chars().all(|digit| digit.is_ascii_digit() || digit == '.');
        let amount = parse_ether(text).ok().filter(|_| is_decimal && !text.is_empty());
        amount.map(Self).ok_or(OptionValueError::Form(
            "coins as a decimal number, such as 1 or 0.25",
        ))
    }
}

impl Network {
    /// Its name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Test => "test",
            Self::Dev => "dev",
            Self::Classic => "classic",
            Self::Mordor => "mordor",
        }
    }
}

/// A block height on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeightRef {
    /// The height of the head.
    Latest,
    /// A height.
    Number(u64),
}

impl FromStr for HeightRef {
    type Err = OptionValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "latest" {
            return Ok(Self::Latest);
        }
        parse_block_number(text).map(Self::Number)
    }
}

/// Parses a block number: decimal digits, or hexadecimal digits after `0x`.
pub(super) fn parse_block_number(text: &str) -> Result<u64, OptionValueError> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| OptionValueError::Form("a block number"))
}

/// Refuses an option of the engine API.
pub(super) const fn no_engine(_: &str) -> Result<String, OptionValueError> {
    Err(OptionValueError::Engine)
}

/// Parses which past states are kept: `archive`, `recent`, or `recent:BLOCKS`.
pub(super) fn parse_states(text: &str) -> Result<StateRetention, OptionValueError> {
    states_of(text, RECENT_STATES_MIN).ok_or(OptionValueError::States)
}

/// The states that a text names, if it is `archive`, `recent`, or `recent:BLOCKS` with at least
/// `least` blocks.
pub fn states_of(text: &str, least: u64) -> Option<StateRetention> {
    let blocks = match text {
        "archive" => return Some(StateRetention::Archive),
        "recent" => RECENT_STATES_DEFAULT,
        other => other.strip_prefix("recent:")?.parse().ok()?,
    };
    (blocks >= least).then_some(StateRetention::Recent { blocks })
}

/// An account on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountRef {
    /// By its address.
    Address(Address),
    /// By its number in the list of the key files, counted from 0.
    Number(usize),
}

impl FromStr for AccountRef {
    type Err = OptionValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        match parse_address(text) {
            Ok(address) => return Ok(Self::Address(address)),
            Err(error @ AddressTextError::Checksum { .. }) => return Err(error.into()),
            Err(AddressTextError::Form(_)) => {}
        }
        let number = text.parse().map(Self::Number);
        number.map_err(|_| OptionValueError::Form("an address (40 hexadecimal digits) or a number"))
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

/// The place of the full dataset for CPU threads: `--miner.dataset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum MinerDatasetOption {
    /// No full dataset; the threads hash with the light cache.
    Never,
    /// The dataset is generated in memory.
    Memory,
    /// The dataset is a file in `--ethash.dagdir`.
    Disk,
}
