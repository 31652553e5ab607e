//! The door for other people's test vectors: JSON lines in, production code, JSON lines out.
//!
//! Knows the vectors' field names and which library call answers which kind; computes
//! nothing itself. Each kind's function is public, so that suites can be run in this process.

mod block;
mod fields;
mod simple;
mod state;

pub use block::{BlockOutcome, run_blocks};
pub use state::{StateOutcome, run_state};

use std::io::{BufRead, Write};

use chain::ChainSpec;
use chain::spec::{ChainFamily, DifficultyRule, EthereumFork, EthereumForks, MoacForks};
use serde_json::{Value, json};

/// Longest request, in bytes.
const LINE_BYTES_MAX: usize = 256 << 20;

/// What a stream of requests is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// RLP to values, values to RLP.
    Rlp,
    /// Roots of tries.
    Trie,
    /// Ethash of a nonce.
    Ethash,
    /// Difficulty of a block.
    Difficulty,
    /// Keys of V3 files.
    Keystore,
    /// Hash and sender of a raw transaction.
    Tx,
    /// One transaction on a state.
    State,
    /// Blocks on a genesis.
    Block,
}

/// Answers requests until the input ends.
///
/// # Errors
/// Only when reading or writing fails; a bad request is answered with an error.
pub fn serve(kind: Kind, mut input: impl BufRead, mut output: impl Write) -> std::io::Result<()> {
    let door = Door::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = std::io::Read::take(&mut input, LINE_BYTES_MAX as u64 + 1);
        if bounded.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.len() > LINE_BYTES_MAX {
            return Err(std::io::Error::other(format!(
                "a request is over {LINE_BYTES_MAX} bytes"
            )));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let answer = serde_json::from_slice(&line)
            .map_err(|error| format!("no JSON: {error}"))
            .and_then(|request| door.answer(kind, &request))
            .unwrap_or_else(|error| json!({ "error": error }));
        serde_json::to_writer(&mut output, &answer)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
}

/// What answers share: light caches, which are dear.
#[derive(Debug, Default)]
pub struct Door {
    caches: ethash::LightCaches,
}

impl Door {
    /// Answers one request.
    ///
    /// # Errors
    /// Why the production code refuses, or what is missing in the request.
    pub fn answer(&self, kind: Kind, request: &Value) -> Result<Value, String> {
        match kind {
            Kind::Rlp => simple::rlp(request),
            Kind::Trie => simple::trie(request),
            Kind::Ethash => simple::ethash(&self.caches, request),
            Kind::Difficulty => simple::difficulty(request),
            Kind::Keystore => simple::keystore(request),
            Kind::Tx => simple::tx(request),
            Kind::State => state::answer(request),
            Kind::Block => block::answer(&self.caches, request),
        }
    }
}

/// The rules that a vector names, from block 0 on.
///
/// # Errors
/// For a name that is no fork, and for forks that are not built here.
pub fn spec_of_fork(name: &str) -> Result<ChainSpec, String> {
    let plain = |fork| EthereumForks::only(fork);
    let changed = |before, change: fn(&mut EthereumForks)| {
        let mut forks = EthereumForks::only(before);
        change(&mut forks);
        forks
    };
    let forks = match name {
        "Frontier" => plain(EthereumFork::Frontier),
        "Homestead" => plain(EthereumFork::Homestead),
        "EIP150" => plain(EthereumFork::Eip150),
        "EIP158" => plain(EthereumFork::Eip158),
        "Byzantium" => plain(EthereumFork::Byzantium),
        "Constantinople" => plain(EthereumFork::Constantinople),
        "ConstantinopleFix" => plain(EthereumFork::ConstantinopleFix),
        "Istanbul" => plain(EthereumFork::Istanbul),
        "MuirGlacier" => changed(EthereumFork::Istanbul, |forks| forks.muir_glacier = Some(0)),
        "FrontierToHomesteadAt5" => changed(EthereumFork::Frontier, |forks| forks.homestead = Some(5)),
        "HomesteadToDaoAt5" => changed(EthereumFork::Homestead, |forks| {
            (forks.dao, forks.dao_support) = (Some(5), true);
        }),
        "HomesteadToEIP150At5" => changed(EthereumFork::Homestead, |forks| forks.eip150 = Some(5)),
        "EIP158ToByzantiumAt5" => changed(EthereumFork::Eip158, |forks| forks.byzantium = Some(5)),
        "ByzantiumToConstantinopleFixAt5" => changed(EthereumFork::Byzantium, |forks| {
            (forks.constantinople, forks.petersburg) = (Some(5), Some(5));
        }),
        "Moac" => return Ok(moac()),
        other => return Err(format!("unsupported fork {other}")),
    };
    Ok(ChainSpec {
        name: name.to_owned(),
        chain_id: 1,
        network_id: 1,
        family: ChainFamily::Ethereum(forks),
        difficulty: DifficultyRule::Ethereum,
        failed_calls_refund_gas: false,
        system_contract: false,
        gas_limit_min: chain::spec::GAS_LIMIT_MIN,
        genesis: Default::default(),
        genesis_hash: None,
        ..ChainSpec::main()
    })
}

/// The public network's latest rules.
fn moac() -> ChainSpec {
    let all = MoacForks {
        pangu: Some(0),
        nuwa: Some(0),
        fuxi: Some(0),
        precompiles: Some(0),
        classic_transactions: Some(0),
        bomb_defused: Some(0),
    };
    ChainSpec {
        family: ChainFamily::Moac(all),
        system_contract: false,
        genesis: Default::default(),
        genesis_hash: None,
        ..ChainSpec::main()
    }
}
