//! `miner verify`: checks a solution.

use command_line::ExitReason;
use ethash::{B256, CacheError, Epoch, Schedule};
use miner::verify::{SolutionClaim, verify};

use super::CommandOutput;
use super::options::{Algorithm, VerifyOptions};

/// The reasons why a solution cannot be checked.
#[derive(Debug, thiserror::Error)]
enum UncheckedSolution {
    /// No option tells the epoch.
    #[error("the epoch is missing: give --epoch N, --number N or --seed HASH")]
    NoEpoch,
    /// The seed hash is that of no epoch.
    #[error("seed hash: got {got}, expected the seed hash of an epoch of {of}")]
    SeedHash { got: B256, of: &'static str },
    /// The epoch has no light cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// Checks the solution.
pub(crate) fn run(options: &VerifyOptions) -> Result<CommandOutput, ExitReason> {
    let verdict = epoch(options)
        .and_then(|epoch| {
            Ok(verify(&SolutionClaim {
                header_hash: options.header_hash,
                pow_nonce: options.nonce,
                mix_hash: options.mix_hash.0,
                boundary: options.boundary,
                epoch,
            })?)
        })
        .map_err(|error| {
            eprintln!("error: {error}");
            ExitReason::Usage
        })?;
    let text = if options.json {
        verdict.to_json().to_string()
    } else {
        verdict.to_string()
    };
    let exit = if verdict.is_valid() {
        ExitReason::Done
    } else {
        ExitReason::Invalid
    };
    Ok(CommandOutput { text, exit })
}

/// The epoch, from its number, a block number or a seed hash.
fn epoch(options: &VerifyOptions) -> Result<Epoch, UncheckedSolution> {
    let schedule = options.schedule.schedule();
    match (options.epoch, options.number, &options.seed) {
        (Some(index), ..) if options.schedule.algo == Algorithm::Etchash => Ok(Epoch::etchash(index)),
        (Some(index), ..) => Ok(Epoch::ethash(index)),
        (_, Some(number), _) => Ok(schedule.epoch(number)),
        (.., Some(seed)) => schedule
            .find_epoch(seed)
            .ok_or_else(|| UncheckedSolution::SeedHash {
                got: *seed,
                of: name(schedule),
            }),
        (None, None, None) => Err(UncheckedSolution::NoEpoch),
    }
}

const fn name(schedule: Schedule) -> &'static str {
    match schedule {
        Schedule::Ethash => "Ethash",
        Schedule::Etchash { .. } => "Etchash",
    }
}
