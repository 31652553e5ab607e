//! The rules that a test vector names by its fork.

use chain::ChainSpec;
use chain::spec::{ChainFamily, DaoFork, DifficultyRule, MoacForks, Rule, RuleTable};

use super::error::TestVectorError;
use super::fields::wrong;

/// The forks of Ethereum Classic that are named after one of Ethereum's: the classic name, and the
/// last fork of Ethereum whose rules are in force. Left out of those rules are the delays of the
/// difficulty bomb, the rewards, the base fee and the random value.
const CLASSIC: [(&str, &str); 6] = [
    ("ETC_Atlantis", "Byzantium"),
    ("ETC_Agharta", "ConstantinopleFix"),
    ("ETC_Phoenix", "Istanbul"),
    ("ETC_Magneto", "Berlin"),
    ("ETC_Mystique", "London"),
    ("ETC_Spiral", "Shanghai"),
];

/// The rules of the fork `name`, active from block 0 on.
///
/// # Errors
/// [`TestVectorError`] if `name` is not a fork that this node implements.
pub fn spec_of_fork(name: &str) -> Result<ChainSpec, TestVectorError> {
    let later = |before, fork| RuleTable::up_to(before).map(|rules| rules.with_fork(fork, 5));
    let mut dao = None;
    let rules = match name {
        "FrontierToHomesteadAt5" => later("Frontier", "Homestead"),
        "HomesteadToDaoAt5" => {
            dao = Some(DaoFork {
                block: 5,
                support: true,
            });
            RuleTable::up_to("Homestead")
        }
        "HomesteadToEIP150At5" => later("Homestead", "EIP150"),
        "EIP158ToByzantiumAt5" => later("EIP158", "Byzantium"),
        "ByzantiumToConstantinopleFixAt5" => {
            later("Byzantium", "Constantinople").map(|rules| rules.with_fork("ConstantinopleFix", 5))
        }
        "Moac" => return Ok(moac()),
        name => classic(name).or_else(|| RuleTable::up_to(name)),
    };
    let chain_id = if CLASSIC.iter().any(|(fork, _)| *fork == name) {
        ChainSpec::classic().chain_id
    } else {
        1
    };
    let rules = rules.ok_or_else(|| wrong("fork", name, "a supported fork"))?;
    Ok(ChainSpec {
        name: name.to_owned(),
        chain_id,
        chain_id_changes: Vec::new(),
        network_id: 1,
        family: ChainFamily::Ethereum,
        rules,
        dao,
        era_blocks: ChainSpec::classic().era_blocks,
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

/// The rules of a fork of Ethereum Classic; `None` if `name` is none.
fn classic(name: &str) -> Option<RuleTable> {
    let (_, ethereum) = CLASSIC.iter().find(|(fork, _)| *fork == name)?;
    let mut rules = RuleTable::up_to(ethereum)?.with(0, &[Rule::Ecip1017, Rule::Ecip1041]);
    for rule in [
        Rule::Eip649,
        Rule::Eip1234,
        Rule::Eip1283,
        Rule::Eip1716,
        Rule::Eip2384,
        Rule::Eip1559,
        Rule::Eip3198,
        Rule::Eip4399,
    ] {
        rules.set(rule, None);
    }
    Some(rules)
}

/// The latest rules of the public network.
fn moac() -> ChainSpec {
    ChainSpec {
        rules: MoacForks::ALL_AT_0.rules(),
        system_contract: false,
        chain_id_changes: Vec::new(),
        notice_list: None,
        genesis: Default::default(),
        genesis_hash: None,
        ..ChainSpec::main()
    }
}
