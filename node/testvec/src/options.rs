//! The options of `vnode testvec`. The commands `statetest`, `t8n` and `b11r` have those of geth's
//! program `evm`, at both sides of their names.

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand};

/// The rules of `t8n` by default: those of geth, but for the delay of the bomb.
const FORK: &str = "London";

/// `vnode testvec`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct TestvecOptions {
    /// The parts of traces.
    #[command(flatten)]
    pub steps: StepLineOptions,
    /// The subject
    #[command(subcommand)]
    pub command: TestvecCommand,
}

/// The parts of traces (EIP-3155).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct StepLineOptions {
    /// With statetest, write each step as a line of JSON to standard error
    #[arg(long, global = true)]
    pub json: bool,
    /// Leave out the memory
    #[arg(long, global = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value_t = true)]
    pub nomemory: bool,
    /// Leave out what calls return
    #[arg(long, global = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value_t = true)]
    pub noreturndata: bool,
    /// Leave out the stack
    #[arg(long, global = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value_t = false)]
    pub nostack: bool,
}

/// A command of `vnode testvec`. The first eight read one JSON request a line.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum TestvecCommand {
    /// Decoding and encoding of RLP
    Rlp,
    /// Roots of tries
    Trie,
    /// Ethash hash of a nonce
    Ethash,
    /// Difficulty of a block
    Difficulty,
    /// Decrypting V3 key files
    Keystore,
    /// Hash and sender of a raw transaction
    Tx,
    /// The state after one transaction
    State,
    /// The head after a list of blocks
    Block,
    /// Run the state tests in a file, as `evm statetest` of geth does
    Statetest {
        /// The file; without it the names of files are read from standard input, one a line
        file: Option<PathBuf>,
        /// Stands for --json, as in newer versions of geth
        #[arg(long)]
        trace: bool,
    },
    /// Execute transactions on a state, as `evm t8n` of geth does
    #[command(alias = "transition")]
    T8n(TransitionOptions),
    /// Make a block from its parts, as `evm b11r` of geth does
    #[command(alias = "block-builder")]
    B11r(BuilderOptions),
}

/// `vnode testvec t8n`. A place is a file, or stdin, stdout, stderr.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct TransitionOptions {
    /// The accounts before
    #[arg(long = "input.alloc", value_name = "PLACE", default_value = "alloc.json")]
    pub alloc: String,
    /// The block
    #[arg(long = "input.env", value_name = "PLACE", default_value = "env.json")]
    pub env: String,
    /// The transactions: objects of JSON, or in a file that ends with .rlp a list in RLP
    #[arg(long = "input.txs", value_name = "PLACE", default_value = "txs.json")]
    pub txs: String,
    /// Folder of the files that are written
    #[arg(long = "output.basedir", value_name = "DIR")]
    pub basedir: Option<PathBuf>,
    /// The accounts afterwards
    #[arg(long = "output.alloc", value_name = "PLACE", default_value = "alloc.json")]
    pub to_alloc: String,
    /// Roots, receipts, refused transactions
    #[arg(long = "output.result", value_name = "PLACE", default_value = "result.json")]
    pub to_result: String,
    /// The transactions as a list in RLP; empty for nowhere
    #[arg(long = "output.body", value_name = "PLACE", default_value = "")]
    pub to_body: String,
    /// The rules, with the names of the page testvec.md
    #[arg(long = "state.fork", value_name = "FORK", default_value = FORK)]
    pub fork: String,
    /// The chain's id [default: 1, or 61 with the forks of Ethereum Classic]
    #[arg(long = "state.chainid", value_name = "ID")]
    pub chain_id: Option<u64>,
    /// The reward for the block, in wei; -1 for none, which does not touch the beneficiary either
    #[arg(
        long = "state.reward",
        value_name = "WEI",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub reward: i64,
    /// Write the steps of each transaction to trace-INDEX-HASH.jsonl in the folder
    #[arg(long)]
    pub trace: bool,
    /// With the memory
    #[arg(long = "trace.memory")]
    pub trace_memory: bool,
    /// Without the stack
    #[arg(long = "trace.nostack")]
    pub trace_nostack: bool,
    /// Add what calls return
    #[arg(long = "trace.returndata")]
    pub trace_returndata: bool,
    /// Leave out the memory
    #[arg(long = "trace.nomemory", hide = true, action = ArgAction::Set, num_args = 0..=1,
        require_equals = true, default_missing_value = "true", default_value_t = true)]
    pub trace_nomemory: bool,
    /// Leave out what calls return
    #[arg(long = "trace.noreturndata", hide = true, action = ArgAction::Set, num_args = 0..=1,
        require_equals = true, default_missing_value = "true", default_value_t = true)]
    pub trace_noreturndata: bool,
}

/// `vnode testvec b11r`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct BuilderOptions {
    /// The fields of the header
    #[arg(long = "input.header", value_name = "PLACE", default_value = "header.json")]
    pub header: String,
    /// The uncles: an array of headers in RLP
    #[arg(long = "input.ommers", value_name = "PLACE", default_value = "")]
    pub ommers: String,
    /// The transactions: a list in RLP
    #[arg(long = "input.txs", value_name = "PLACE", default_value = "txs.rlp")]
    pub txs: String,
    /// Folder of the file that is written
    #[arg(long = "output.basedir", value_name = "DIR")]
    pub basedir: Option<PathBuf>,
    /// The block and its hash
    #[arg(long = "output.block", value_name = "PLACE", default_value = "block.json")]
    pub to_block: String,
    /// Search a nonce and put it into the header
    #[arg(long = "seal.ethash")]
    pub seal: bool,
}
