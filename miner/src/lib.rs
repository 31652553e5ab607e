//! miner
