//! miner/ethash
