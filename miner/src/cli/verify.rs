//! `verify`: a solution in, a verdict out.

use ethash::{Epoch, Schedule};
use miner::verify::{Question, verify};

use super::exit::Exit;
use super::options::{Algorithm, VerifyOptions};

/// Judges; gives the text for standard output and the exit code.
pub(crate) fn run(options: &VerifyOptions) -> Result<(String, Exit), Exit> {
    let verdict = epoch(options)
        .and_then(|epoch| {
            verify(&Question {
                header_hash: options.header_hash,
                pow_nonce: options.nonce,
                mix_hash: options.mix_hash.0,
                boundary: options.boundary,
                epoch,
            })
            .map_err(|error| error.to_string())
        })
        .map_err(|error| {
            eprintln!("error: {error}");
            Exit::Usage
        })?;
    let text = if options.json {
        verdict.to_json().to_string()
    } else {
        verdict.to_string()
    };
    let exit = if verdict.is_valid() {
        Exit::Done
    } else {
        Exit::Invalid
    };
    Ok((text, exit))
}

/// The epoch, however it was named.
fn epoch(options: &VerifyOptions) -> Result<Epoch, String> {
    let schedule = options.schedule.schedule();
    match (options.epoch, options.number, &options.seed) {
        (Some(index), ..) if options.schedule.algo == Algorithm::Etchash => Ok(Epoch::etchash(index)),
        (Some(index), ..) => Ok(Epoch::ethash(index)),
        (_, Some(number), _) => Ok(schedule.epoch(number)),
        (.., Some(seed)) => schedule
            .find_epoch(seed)
            .ok_or_else(|| format!("seed hash {seed} is of no epoch of {}", name(schedule))),
        (None, None, None) => Err("the epoch is needed: --epoch N, --number N or --seed HASH".into()),
    }
}

fn name(schedule: Schedule) -> &'static str {
    match schedule {
        Schedule::Ethash => "Ethash",
        Schedule::Etchash { .. } => "Etchash",
    }
}
