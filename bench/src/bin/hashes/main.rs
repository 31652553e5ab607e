//! Compares implementations of Ethash on the processor, and kernels on a graphics adapter.
//!
//! `cargo run --release -p bench --bin hashes` measures the processor, the same with
//! `-- card --kernel shuffle:128` one kernel on one adapter, and with `-- seals` checks of seals on
//! both. The measurements but those of seals are those of [`miner::bench`], as in `miner bench`.

mod card;
mod chfast;
mod processor;
mod seals;
mod table;

use clap::{Parser, Subcommand};

use card::CardArgs;
use processor::ProcessorArgs;
use seals::SealArgs;

#[derive(Parser)]
#[command(about = "Measures Ethash on the processor", long_about = None)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    #[command(flatten)]
    processor: ProcessorArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Measures one kernel on one graphics adapter.
    Card(CardArgs),
    /// Measures checks of seals on the processor and on one graphics adapter.
    Seals(SealArgs),
}

fn main() {
    let args = Args::parse();
    let measured = match &args.command {
        None => processor::run(&args.processor),
        Some(Command::Card(card)) => card::run(card),
        Some(Command::Seals(args)) => seals::run(args),
    };
    if let Err(error) = measured {
        eprintln!("hashes: {error}");
        std::process::exit(1);
    }
}
