//! The text about an opcode that a block does not have, with what its author can do.
//!
//! Compilers write opcodes of the newest fork unless they are told otherwise, so this is the most
//! frequent failure of a first contract on a chain of proof of work.

use revm::bytecode::opcode::OpCode;

use crate::spec::{BlockRules, Rule};

/// The begin of the text, which is the public network's.
pub(super) const INVALID_OPCODE: &str = "Invalid opcode";

/// The versions that solc's option `--evm-version` takes, in their order. Those left out need no
/// other opcodes than the version before them.
const VERSIONS: [&str; 7] = [
    "homestead",
    "spuriousDragon",
    "byzantium",
    "petersburg",
    "berlin",
    "paris",
    "shanghai",
];

/// Opcodes, Ethereum's fork that has brought them, the last of [`VERSIONS`] without them, and
/// whether `--dev.fork` knows the fork.
const FORKS: [(&[u8], &str, &str, bool); 7] = [
    (&[0x3d, 0x3e, 0xfa, 0xfd], "Byzantium", "spuriousDragon", true),
    (
        &[0x1b, 0x1c, 0x1d, 0x3f, 0xf5],
        "Constantinople",
        "byzantium",
        true,
    ),
    (&[0x46, 0x47], "Istanbul", "petersburg", true),
    (&[0x48], "London (with its base fee)", "berlin", false),
    (&[0x5f], "Shanghai", "paris", true),
    (&[0x49, 0x4a, 0x5c, 0x5d, 0x5e], "Cancun", "shanghai", false),
    (&[0x1e], "Osaka", "shanghai", false),
];

/// The newest of [`VERSIONS`] whose opcodes a block with these rules has.
fn newest_version(rules: BlockRules) -> &'static str {
    [
        (Rule::Eip3855, "shanghai"),
        (Rule::Eip1344, "paris"),
        (Rule::Eip145, "petersburg"),
        (Rule::Eip140, "byzantium"),
        (Rule::Eip150, "spuriousDragon"),
    ]
    .into_iter()
    .find_map(|(rule, version)| rules.has(rule).then_some(version))
    .unwrap_or("homestead")
}

/// The text about opcode `code`, which a block with these rules does not have.
pub(super) fn invalid_opcode_text(rules: BlockRules, code: u8) -> String {
    let name = OpCode::new(code).map_or("none", |opcode| opcode.as_str());
    let text = format!("{INVALID_OPCODE}: {name} ({code:#04x})");
    let Some((_, fork, before, has_option)) = FORKS.iter().find(|(codes, ..)| codes.contains(&code)) else {
        return text;
    };
    let place = |version: &str| VERSIONS.iter().position(|known| *known == version);
    let newest = newest_version(rules);
    let version = if place(newest) < place(before) {
        newest
    } else {
        before
    };
    let option = if *has_option {
        format!(
            ", or start a development network with --dev.fork {}",
            fork.to_lowercase()
        )
    } else {
        String::new()
    };
    format!(
        "{text} is of Ethereum's fork {fork}, which this block does not have: compile with solc's --evm-version \
         {version} (evmVersion in Hardhat and Truffle, evm_version in Foundry){option}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ChainSpec, RuleTable};

    fn check(rules: BlockRules, code: u8, begin: &str, version: &str, option: &str) {
        let text = invalid_opcode_text(rules, code);
        assert!(text.starts_with(begin), "{text}");
        assert!(text.contains(&format!("--evm-version {version} ")), "{text}");
        assert!(text.ends_with(option), "{text}");
    }

    #[test]
    fn the_text_names_opcode_fork_and_compiler_option() {
        let dev = ChainSpec::dev().rules_at(0);
        let push0 = "Invalid opcode: PUSH0 (0x5f) is of Ethereum's fork Shanghai";
        check(dev, 0x5f, push0, "paris", "--dev.fork shanghai");
        check(
            dev,
            0x49,
            "Invalid opcode: BLOBHASH (0x49) is of Ethereum's fork Cancun",
            "paris",
            ")",
        );
        let of = |fork| {
            ChainSpec {
                rules: RuleTable::up_to(fork).unwrap(),
                ..ChainSpec::classic()
            }
            .rules_at(0)
        };
        check(
            of("Shanghai"),
            0x5e,
            "Invalid opcode: MCOPY (0x5e)",
            "shanghai",
            ")",
        );
        check(of("Homestead"), 0x5f, push0, "homestead", "--dev.fork shanghai");
        check(
            of("Byzantium"),
            0x1b,
            "Invalid opcode: SHL (0x1b)",
            "byzantium",
            "constantinople",
        );
        assert_eq!(invalid_opcode_text(dev, 0xfe), "Invalid opcode: INVALID (0xfe)");
        assert_eq!(invalid_opcode_text(dev, 0x0c), "Invalid opcode: none (0x0c)");
    }
}
