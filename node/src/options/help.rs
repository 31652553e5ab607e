//! The command line with its help: headings, what `-h` shows, and which options a command shows.
//!
//! Knows options by their names only; what they mean is in their definitions.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command, CommandFactory};
use command_line::{is_short_help, with_headings, with_short_help};

use super::VnodeOptions;

/// The headings of the help and of `docs/options.md`, each with the long name of the option that it
/// begins with, in the order of the definitions.
pub(super) const HEADINGS: [(&str, &str); 14] = [
    ("config", "Network and data"),
    ("keystore", "Accounts"),
    ("mine", "Mining"),
    ("txpool.locals", "Transaction pool"),
    ("authrpc.addr", "JSON-RPC over HTTP"),
    ("ws", "JSON-RPC over WebSockets"),
    ("ipcpath", "Local socket"),
    ("rpc.tls.cert", "Access to JSON-RPC"),
    ("rpc.maxbody", "Limits of JSON-RPC"),
    ("stratum", "Stratum"),
    ("metrics", "Metrics, dashboard"),
    ("vnodeconfig", "Service for SCS servers"),
    ("nodekey", "Peers"),
    ("verbosity", "Log"),
];

/// The options of `-h`, each with its text.
const SHORT: [(&str, &str); 11] = [
    ("dev", "Development network: ten funded accounts"),
    ("network", "main, test, classic or mordor"),
    ("datadir", "Folder of the chain [default: ~/.moac]"),
    ("state", "archive or recent: past states to keep"),
    ("config", "File with options"),
    ("mine", "Mine"),
    ("moacbase", "Who is paid; also --miner.etherbase"),
    ("rpc", "Serve HTTP; also --http. --rpcport: 8545"),
    ("ws", "Serve WebSockets. --wsport: 8546"),
    ("stratum", "Give work to miners. --stratumport: 8008"),
    ("dashboard", "Page for browsers"),
];

/// The help of `-h`.
const SHORT_TEMPLATE: &str = "\
{about}

{usage-heading} {usage}

Commands: init import export db dump account attach rpc dumpconfig scs-demo
          version completions manual testvec; `vnode help COMMAND` has more
{options}{after-help}";

/// The examples below the help.
const EXAMPLES: &str = "\
Examples:
  vnode --dev --mine --rpc
  vnode --network classic --state recent --dashboard 127.0.0.1:8580
  vnode attach --exec mc.blockNumber";

/// Ids of the options that choose a chain.
const CHAIN: [&str; 4] = ["dev", "network", "genesis", "datadir"];
/// Ids of the options that find the data directory of a chain.
const FOLDER: [&str; 3] = ["dev", "network", "datadir"];
/// Ids of the options of the log.
pub(super) const LOG: [&str; 6] = [
    "verbosity",
    "log_json",
    "log_file",
    "log_max_size",
    "log_max_backups",
    "log_otlp",
];

/// The ids of the global options that a command uses, in groups; its path is that of `vnode help`.
/// `None` if all have an effect.
pub(super) fn used_by(path: &str) -> Option<Vec<&'static [&'static str]>> {
    Some(match path {
        "init" | "db compact" => vec![&FOLDER, &["cache"], &LOG],
        "import" => vec![
            &CHAIN,
            &["cache", "state", "verify_device", "fakepow", "maxreorg"],
            &LOG,
        ],
        "export" | "db stats" | "db backup" => vec![&CHAIN, &["cache", "ipcpath"], &LOG],
        "dump" | "db" | "db check" => vec![&CHAIN, &["cache"], &LOG],
        "db prune" => vec![&CHAIN, &["cache", "state"], &LOG],
        "account list" => vec![&FOLDER, &["keystore"]],
        "account" | "account new" | "account import" | "account update" => {
            vec![&FOLDER, &["keystore", "password", "lightkdf"]]
        }
        "attach" | "rpc" => vec![&FOLDER, &["ipcpath"]],
        "scs-demo" => vec![&["datadir", "cache", "ipcpath"], &LOG],
        "dumpconfig" => return None,
        _ => Vec::new(),
    })
}

/// The command line of `vnode` with its help.
pub fn vnode_command() -> Command {
    let command = with_headings(VnodeOptions::command(), &HEADINGS).after_help(EXAMPLES);
    let global: Vec<Arg> = command
        .get_arguments()
        .filter(|option| option.is_global_set())
        .cloned()
        .collect();
    command.mut_subcommands(|command| {
        let path = command.get_name().to_owned();
        with_used_options(command, &path, &global)
    })
}

/// Hides the global options that a command and the commands below it do not use. They are still
/// accepted, so that scripts can give each command the same options.
fn with_used_options(command: Command, path: &str, global: &[Arg]) -> Command {
    let used = used_by(path).unwrap_or_default().concat();
    let options = global.iter().map(|option| {
        let is_used = used.contains(&option.get_id().as_str());
        option.clone().hide(!is_used && option.get_id() != "config")
    });
    command.args(options).mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        with_used_options(below, &path, global)
    })
}

/// The command line for these arguments: the help of `-h` fits a screen of 24 lines.
pub(super) fn vnode_command_for(arguments: &[OsString]) -> Command {
    let command = vnode_command();
    let names_command = |argument: &OsString| {
        let mut commands = command.get_subcommands();
        commands.any(|command| OsStr::new(command.get_name()) == argument)
    };
    if !is_short_help(arguments) || arguments.iter().skip(1).any(names_command) {
        return command;
    }
    with_short_help(command.help_template(SHORT_TEMPLATE), &SHORT)
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    fn help(arguments: &[&str]) -> String {
        let arguments: Vec<_> = std::iter::once(&"vnode")
            .chain(arguments)
            .map(OsString::from)
            .collect();
        let error = vnode_command_for(&arguments)
            .try_get_matches_from(&arguments)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DisplayHelp, "{error}");
        error.to_string()
    }

    #[test]
    fn the_short_help_fits_a_screen() {
        let text = help(&["-h"]);
        assert!(text.lines().count() <= 24, "{}\n{text}", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let (_, examples) = text.split_once("Examples:\n").unwrap();
        assert_eq!(examples.trim_end().lines().count(), 3);
        for line in examples.trim_end().lines() {
            let arguments = line.split_whitespace();
            assert!(vnode_command().try_get_matches_from(arguments).is_ok(), "{line}");
        }
        for command in vnode_command().get_subcommands() {
            assert!(text.contains(command.get_name()), "{}", command.get_name());
        }
        for (id, _) in SHORT {
            assert!(text.contains(&format!("--{id}")), "{id}: {text}");
        }
    }

    #[test]
    fn options_stand_under_their_headings() {
        let command = vnode_command();
        let heading = |long: &str| {
            let option = command
                .get_arguments()
                .find(|option| option.get_long() == Some(long));
            option.unwrap().get_help_heading().unwrap()
        };
        for (long, expected) in [
            ("config", "Network and data"),
            ("maxreorg", "Network and data"),
            ("lightkdf", "Accounts"),
            ("targetgaslimit", "Mining"),
            ("txpool.lifetime", "Transaction pool"),
            ("rpc", "JSON-RPC over HTTP"),
            ("rpc.pendingnumber", "JSON-RPC over HTTP"),
            ("wsorigins", "JSON-RPC over WebSockets"),
            ("ipcdisable", "Local socket"),
            ("rpc.rateburst", "Access to JSON-RPC"),
            ("rpc.filtertimeout", "Limits of JSON-RPC"),
            ("stratumport", "Stratum"),
            ("stratum.status", "Stratum"),
            ("dashboard", "Metrics, dashboard"),
            ("scs.allow", "Service for SCS servers"),
            ("nodekeyhex", "Peers"),
            ("identity", "Peers"),
            ("log.json", "Log"),
            ("otlp", "Log"),
        ] {
            assert_eq!(heading(long), expected, "{long}");
        }
        assert!(help(&["--help"]).contains("\nStratum:\n"));
    }

    #[test]
    fn commands_show_what_they_use() {
        let check = |path: &[&str], shown: &[&str], hidden: &[&str]| {
            let text = help(&[path, &["-h"]].concat());
            for option in shown {
                assert!(text.contains(option), "{path:?}: {option} in {text}");
            }
            for option in hidden {
                assert!(!text.contains(option), "{path:?}: no {option} in {text}");
            }
        };
        check(
            &["rpc"],
            &["--endpoint", "--datadir", "--ipcpath"],
            &["--cache", "--maxreorg", "--password", "--log.file"],
        );
        check(
            &["db", "prune"],
            &["--state", "--datadir"],
            &["--ipcpath", "--keystore"],
        );
        check(
            &["account", "new"],
            &["--password", "--keystore"],
            &["--cache", "--state"],
        );
        check(&["version"], &["--json"], &["--datadir", "--verbosity"]);
        // A hidden option is still read.
        let matches = vnode_command().get_matches_from(["vnode", "version", "--cache", "7"]);
        assert_eq!(matches.get_one::<usize>("cache"), Some(&7));
        let matches = vnode_command().get_matches_from(["vnode", "db", "check", "--datadir", "d"]);
        assert_eq!(
            matches.get_one::<std::path::PathBuf>("datadir"),
            Some(&"d".into())
        );
    }

    #[test]
    fn ids_of_used_options_are_those_of_options() {
        let command = VnodeOptions::command();
        let is_global = |id: &str| {
            let mut options = command.get_arguments();
            options.any(|option| option.is_global_set() && option.get_id() == id)
        };
        let paths = |command: &Command| {
            let name = command.get_name().to_owned();
            let below = command
                .get_subcommands()
                .map(|below| format!("{name} {}", below.get_name()));
            below.chain([name.clone()]).collect::<Vec<_>>()
        };
        for path in command.get_subcommands().flat_map(paths) {
            for id in used_by(&path).unwrap_or_default().concat() {
                assert!(is_global(id), "{path}: {id}");
            }
        }
    }
}
