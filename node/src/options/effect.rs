//! Options that were given and have no effect. A warning names each of them.

use clap::ArgMatches;
use clap::parser::ValueSource;
use command_line::{NeededOption, missing_need, no_effect};

use super::VnodeOptions;
use super::help::{LOG, used_by, vnode_command};

/// The needs of each option of the node. Options of the miner are not here, because
/// `miner_start` reads them, too.
const NEEDED: [NeededOption<VnodeOptions>; 11] = [
    NeededOption {
        ids: &["rpcaddr", "rpcport", "rpcapi", "rpccorsdomain"],
        is_given: |options| options.rpc,
        needs: "without --rpc",
    },
    NeededOption {
        ids: &["wsaddr", "wsport", "wsapi", "wsorigins"],
        is_given: |options| options.ws,
        needs: "without --ws",
    },
    NeededOption {
        ids: &[
            "rpc_tls_cert",
            "rpc_tls_key",
            "rpc_tokens",
            "rpc_rate",
            "rpc_rateburst",
        ],
        is_given: |options| options.rpc || options.ws,
        needs: "without --rpc or --ws",
    },
    NeededOption {
        ids: &["rpcvhosts"],
        is_given: |options| {
            let pages = options.metrics.or(options.dashboard).or(options.stratum_status);
            options.rpc || options.ws || pages.is_some()
        },
        needs: "without --rpc, --ws, --metrics, --dashboard or --stratum.status",
    },
    NeededOption {
        ids: &[
            "stratumaddr",
            "stratumport",
            "stratum_difficulty",
            "stratum_password",
            "stratum_tls_cert",
            "stratum_tls_key",
            "stratum_maxconnections",
            "stratum_maxperaddress",
            "stratum_bantime",
            "stratum_status",
        ],
        is_given: |options| options.stratum,
        needs: "without --stratum",
    },
    NeededOption {
        ids: &["log_max_size", "log_max_backups"],
        is_given: |options| options.log.file.is_some(),
        needs: "without --log.file",
    },
    NeededOption {
        ids: &["ipcpath"],
        is_given: |options| !options.ipcdisable,
        needs: "with --ipcdisable",
    },
    NeededOption {
        ids: &["password"],
        is_given: |options| !options.unlock.is_empty(),
        needs: "without --unlock",
    },
    NeededOption {
        ids: &["pricelimit"],
        is_given: |options| options.gasprice.is_none(),
        needs: "with --gasprice",
    },
    NeededOption {
        ids: &["discovery_dns", "discovery_port"],
        is_given: |options| !options.peers.nodiscover,
        needs: "with --nodiscover",
    },
    NeededOption {
        ids: &["dev_seal"],
        is_given: |options| {
            options
                .network()
                .is_ok_and(|network| network.is_none_or(|network| network.name() == "dev"))
        },
        needs: "on other networks than the development network",
    },
];

/// The options that have no effect, as warnings: those of `typed`, the command line alone, and for
/// a node those of a file that differ from their defaults. `all` has the values of both.
pub(super) fn without_effect(options: &VnodeOptions, typed: &ArgMatches, all: &ArgMatches) -> Vec<String> {
    let definition = vnode_command();
    let is_typed = |id: &str| typed.value_source(id) == Some(ValueSource::CommandLine);
    let given = definition.get_arguments().filter(|option| {
        let id = option.get_id().as_str();
        let is_told = all.value_source(id) == Some(ValueSource::CommandLine);
        let is_default = || {
            let values: Vec<_> = all.get_raw(id).into_iter().flatten().collect();
            values == option.get_default_values()
        };
        is_typed(id) || (options.command.is_none() && is_told && !is_default())
    });
    let reason = |id: &str| match &options.command {
        None => missing_need(&NEEDED, options, id).map(str::to_owned),
        Some(_) => {
            let path = path_of(all);
            let used = used_by(&path)?.concat();
            let is_used = used.contains(&id) || LOG.contains(&id) || id == "config";
            (!is_used).then(|| format!("on the command {path}"))
        }
    };
    let warning = |option: &clap::Arg| no_effect(option, &reason(option.get_id().as_str())?);
    given.filter_map(warning).collect()
}

/// The names of the command and of the command below it.
fn path_of(matches: &ArgMatches) -> String {
    let mut path = Vec::new();
    let mut at = matches;
    while let Some((name, below)) = at.subcommand() {
        path.push(name);
        at = below;
    }
    path.join(" ")
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;

    /// The warnings for a command line, and a file with these options.
    fn warnings(typed: &[&str], file: &[&str]) -> Vec<String> {
        let matches = |arguments: &[&str]| {
            let all = std::iter::once(&"vnode").chain(arguments);
            vnode_command().try_get_matches_from(all).expect("options")
        };
        let (all, typed) = (matches(&[file, typed].concat()), matches(typed));
        let options = VnodeOptions::from_arg_matches(&all).expect("options");
        without_effect(&options, &typed, &all)
    }

    #[test]
    fn options_without_effect_are_named() {
        let check =
            |typed: &[&str], expected: &[&str]| assert_eq!(warnings(typed, &[]), expected, "{typed:?}");
        check(
            &["--stratumport", "8008"],
            &["--stratumport has no effect without --stratum"],
        );
        check(&["--stratumport", "8008", "--stratum"], &[]);
        check(
            &["--rpcport", "1", "--wsport", "2", "--ws"],
            &["--rpcport has no effect without --rpc"],
        );
        check(&["--rpcvhosts", "a", "--dashboard", "127.0.0.1:0"], &[]);
        check(
            &["--log.maxsize", "1"],
            &["--log.maxsize has no effect without --log.file"],
        );
        check(
            &["--txpool.pricelimit", "1", "--gasprice", "1"],
            &["--txpool.pricelimit has no effect with --gasprice"],
        );
        check(
            &["--mine", "db", "check", "--keystore", "k", "--verbosity", "2"],
            &[
                "--keystore has no effect on the command db check",
                "--mine has no effect on the command db check",
            ],
        );
        check(&["rpc", "--datadir", "d", "net_version", "-1"], &[]);
        check(&["--rpc", "dumpconfig"], &[]);
    }

    #[test]
    fn a_file_may_have_defaults_and_options_of_other_commands() {
        let file = ["--stratumport", "8008", "--wsport", "1"];
        assert_eq!(warnings(&[], &file), ["--wsport has no effect without --ws"]);
        assert_eq!(warnings(&["db", "stats"], &file), Vec::<String>::new());
    }

    #[test]
    fn ids_are_those_of_options() {
        let command = vnode_command();
        for id in NEEDED.iter().flat_map(|needed| needed.ids) {
            assert!(
                command.get_arguments().any(|option| option.get_id() == id),
                "{id}"
            );
        }
    }
}
