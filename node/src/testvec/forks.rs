//! The rules that a test vector names by its fork.

use chain::ChainSpec;
use chain::spec::{ChainFamily, DifficultyRule, EthereumFork, EthereumForks, MoacForks};

/// The rules of the fork `name`, active from block 0 on.
///
/// # Errors
/// A text if `name` is not a fork that this node implements.
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
        other => return Err(format!("fork: got {other}, expected a supported fork")),
    };
    Ok(ChainSpec {
        name: name.to_owned(),
        chain_id: 1,
        chain_id_changes: Vec::new(),
        network_id: 1,
        family: ChainFamily::Ethereum(forks),
        difficulty: DifficultyRule::Ethereum,
        failed_calls_refund_gas: false,
        system_contract: false,
        notice_list: None,
        gas_target_min: chain::spec::GAS_LIMIT_MIN,
        genesis: Default::default(),
        genesis_hash: None,
        ..ChainSpec::main()
    })
}

/// The latest rules of the public network.
fn moac() -> ChainSpec {
    let all = MoacForks {
        pangu: Some(0),
        nuwa: Some(0),
        fuxi: Some(0),
        precompiles: Some(0),
        classic_transactions: Some(0),
        bomb_defused: Some(0),
        create2_by_word: None,
    };
    ChainSpec {
        family: ChainFamily::Moac(all),
        system_contract: false,
        chain_id_changes: Vec::new(),
        notice_list: None,
        genesis: Default::default(),
        genesis_hash: None,
        ..ChainSpec::main()
    }
}
