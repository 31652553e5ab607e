//! Compares implementations of Ethash on the processor, and kernels on a graphics adapter.
//!
//! `cargo run --release -p bench --bin hashes` measures the processor, and
//! `cargo run --release -p bench --bin hashes -- card --kernel shuffle:128` one kernel on one
//! adapter. The measurements are those of [`miner::bench`], as in `miner bench`.

mod card;
mod chfast;
mod processor;
mod table;

use clap::{Parser, Subcommand};

use card::CardArgs;
use processor::ProcessorArgs;

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
}

fn main() {
    let args = Args::parse();
    let measured = match &args.command {
        None => processor::run(&args.processor),
        Some(Command::Card(card)) => card::run(card),
    };
    if let Err(error) = measured {
        eprintln!("hashes: {error}");
        std::process::exit(1);
    }
}
