//! The command line with its help: headings, what `-h` shows, and options without an effect.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, FromArgMatches};
use command_line::{NeededOption, is_short_help, with_headings, with_short_help, without_effect};
use engine::DeviceChoice;

use super::options::{Algorithm, BenchOptions, CliOptions, MinerCommand, MiningOptions};

/// The headings of `getwork` and `stratum`, each with the long name of the option that it begins
/// with.
const MINING_HEADINGS: [(&str, &str); 10] = [
    ("farm-recheck", "Nodes"),
    ("user", "Pools"),
    ("device", "Devices and search"),
    ("dataset", "Datasets, algorithm"),
    ("report-hashrate", "Connections"),
    ("status", "Status, dashboard, API"),
    ("tstop", "Care for the rig"),
    ("power-price", "Balance of a day"),
    ("status-hosts", "Status, dashboard, API"),
    ("log-every", "Log"),
];
/// The same for `bench`.
const BENCH_HEADINGS: [(&str, &str); 2] = [("device", "Measurement"), ("thorough", "Thorough benchmark")];

/// The arguments of `miner getwork -h` and `miner stratum -h`, each with its text.
const MINING_SHORT: [(&str, &str); 15] = [
    ("urls", "Nodes or pools; the first is preferred"),
    ("user", "WALLET or WALLET.WORKER"),
    ("password", "Password for pools"),
    ("device", "all, cpu, gpu, gpu:0,2, cpu,gpu:0"),
    ("threads", "CPU threads [default: all]"),
    ("intensity", "Percentage of the time"),
    ("dagdir", "Folder for dataset files"),
    ("algo", "ethash or etchash"),
    ("max_wait", "End without a connection"),
    ("tls_ca", "Certificates to trust"),
    ("status", "Serve JSON and metrics"),
    ("dashboard", "Serve a page for browsers"),
    ("api_bind", "Serve the API of ethminer"),
    ("tstop", "Rest at this temperature"),
    ("power_limit", "Limit of each NVIDIA card"),
];
/// The arguments of `miner bench -h`.
const BENCH_SHORT: [(&str, &str); 14] = [
    ("device", "auto, cpu, gpu, gpu:N, a list, or all"),
    ("epoch", "Epoch of cache and dataset"),
    ("seconds", "Time for a hashrate"),
    ("threads", "CPU threads [default: all]"),
    ("kernel", "Search kernel; auto is the fastest"),
    ("light", "Without the full dataset"),
    ("json", "Print JSON"),
    ("plot", "Write a chart as SVG"),
    ("thorough", "Measure everything; goes on after an end"),
    ("out", "Folder for figures and report"),
    ("minutes", "End after so long"),
    ("node", "Mine for this node, too"),
    ("vnode", "Mine for a node of this program, too"),
    ("report", "Write the report of a folder again"),
];

/// The examples below the help of each command.
const EXAMPLES: [(&str, &str); 4] = [
    (
        "miner",
        "\
Examples:
  miner getwork http://127.0.0.1:8545
  miner stratum stratum+tcp://WALLET.rig@127.0.0.1:8008
  miner bench --device all",
    ),
    (
        "getwork",
        "\
Examples:
  miner getwork http://127.0.0.1:8545
  miner getwork http://127.0.0.1:8545 http://192.0.2.7:8545 --device cpu
  miner getwork 127.0.0.1:8545 --algo etchash --dashboard 127.0.0.1:3381",
    ),
    (
        "stratum",
        "\
Examples:
  miner stratum 127.0.0.1:8008 -u WALLET.rig
  miner stratum stratum1+ssl://WALLET.rig@pool.example:4444 --device all
  miner stratum pool.example:4444 -u WALLET.rig --tstop 80 --plain",
    ),
    (
        "bench",
        "\
Examples:
  miner bench
  miner bench --device cpu --light --seconds 3
  miner bench --thorough --out figures --minutes 30",
    ),
];

/// The options of `getwork` and `stratum` that need another one.
const MINING_NEEDED: [NeededOption<MiningOptions>; 5] = [
    NeededOption {
        ids: &["kernel", "batch", "tstop", "tstart", "power_limit"],
        is_given: |options| options.device != DeviceChoice::Cpu,
        needs: "with --device cpu",
    },
    NeededOption {
        ids: &["etchash_fork"],
        is_given: |options| options.schedule.algo == Algorithm::Etchash,
        needs: "without --algo etchash",
    },
    NeededOption {
        ids: &["status_hosts"],
        is_given: |options| options.status.or(options.dashboard).is_some(),
        needs: "without --status or --dashboard",
    },
    NeededOption {
        ids: &["tls_ca"],
        is_given: |options| !options.tls_trust_anybody,
        needs: "with --tls-trust-anybody",
    },
    NeededOption {
        ids: &["fruitless_exit"],
        is_given: |options| options.care.fruitless > 0.0,
        needs: "with --fruitless 0",
    },
];

/// The options of `bench` that need another one.
const BENCH_NEEDED: [NeededOption<BenchOptions>; 3] = [
    NeededOption {
        ids: &[
            "out",
            "minutes",
            "only",
            "scale",
            "node",
            "vnode",
            "steady",
            "peer",
            "published",
        ],
        is_given: |options| options.thorough.thorough,
        needs: "without --thorough",
    },
    NeededOption {
        ids: &["epoch", "kernel", "light", "json", "plot"],
        is_given: |options| !options.thorough.thorough,
        needs: "with --thorough",
    },
    NeededOption {
        ids: &["steady"],
        is_given: |options| options.thorough.node.is_some() || options.thorough.vnode.is_some(),
        needs: "without --node or --vnode",
    },
];

/// The options of ethminer that choose pools and devices.
const ETHMINER_OPTIONS: [&str; 8] = [
    "-P",
    "--pool",
    "-G",
    "--opencl",
    "-U",
    "--cuda",
    "--cpu",
    "--cuda-opencl",
];
/// The tip of the error about one of [`ETHMINER_OPTIONS`].
const ETHMINER_TIP: &str = "in place of ethminer's -P: 'miner stratum URL' for a pool, 'miner getwork URL' for a node; \
                            in place of -G, -U and --cpu: '--device gpu' and '--device cpu'";

/// The command line of `miner` with its help.
pub(super) fn miner_command() -> Command {
    let mut command = CliOptions::command();
    for (name, examples) in EXAMPLES {
        let headings: &'static [(&str, &str)] = match name {
            "bench" => &BENCH_HEADINGS,
            _ => &MINING_HEADINGS,
        };
        command = match command.get_name() == name {
            true => command.after_help(examples),
            false => {
                command.mut_subcommand(name, |below| with_headings(below, headings).after_help(examples))
            }
        };
    }
    command
}

/// Reads the arguments of a process. Returns the options, and warnings that name those without an
/// effect.
///
/// # Errors
/// The message for the user, which may be the help.
pub(crate) fn read(arguments: &[OsString]) -> Result<(CliOptions, Vec<String>), clap::Error> {
    let mut command = miner_command();
    if is_short_help(arguments) {
        for name in ["getwork", "stratum"] {
            command = command.mut_subcommand(name, |below| with_short_help(below, &MINING_SHORT));
        }
        command = command.mut_subcommand("bench", |below| with_short_help(below, &BENCH_SHORT));
    }
    let matches = command
        .try_get_matches_from_mut(arguments)
        .map_err(with_own_names)?;
    let options = CliOptions::from_arg_matches(&matches)?;
    let typed = matches
        .subcommand()
        .and_then(|(name, typed)| Some((command.find_subcommand(name)?, typed)));
    let warnings = match (&options.command, typed) {
        (MinerCommand::Getwork(given), Some((below, typed))) => {
            without_effect(below, typed, &MINING_NEEDED, &given.mining)
        }
        (MinerCommand::Stratum(given), Some((below, typed))) => {
            without_effect(below, typed, &MINING_NEEDED, &given.mining)
        }
        (MinerCommand::Bench(given), Some((below, typed))) => {
            without_effect(below, typed, &BENCH_NEEDED, given)
        }
        _ => Vec::new(),
    };
    Ok((options, warnings))
}

/// Adds the names that ethminer's options have here to the error about one of them.
fn with_own_names(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg)
        && ETHMINER_OPTIONS.contains(&option.as_str())
    {
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![ETHMINER_TIP.into()]),
        );
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_words(words: &[&str]) -> Result<(CliOptions, Vec<String>), clap::Error> {
        let all = std::iter::once(&"miner").chain(words);
        read(&all.map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_short_help_fits_a_screen() {
        for (name, examples) in EXAMPLES {
            let command = (name != "miner").then_some(name);
            let words: Vec<_> = command.into_iter().chain(["-h"]).collect();
            let text = read_words(&words).map(|_| ()).expect_err("help").to_string();
            let lines = text.lines().count();
            assert!((18..=40).contains(&lines), "{name}: {lines}\n{text}");
            // The line of clap's own command `help` has 88 columns.
            let columns = if command.is_some() { 80 } else { 88 };
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
            let (_, shown) = text.split_once("Examples:\n").expect("examples");
            assert_eq!(shown.trim_end(), examples.trim_start_matches("Examples:\n"));
            assert_eq!(shown.trim_end().lines().count(), 3);
            for line in shown.trim_end().lines() {
                let words: Vec<_> = line.split_whitespace().skip(1).collect();
                let (_, warnings) = read_words(&words).expect(line);
                assert!(warnings.is_empty(), "{line}: {warnings:?}");
            }
        }
    }

    #[test]
    fn the_lists_name_arguments() {
        let command = miner_command();
        let ids = |name: &str| -> Vec<_> {
            let below = command.find_subcommand(name).expect(name);
            below
                .get_arguments()
                .map(|option| option.get_id().to_string())
                .collect()
        };
        let (mining, bench) = ([ids("getwork"), ids("stratum")].concat(), ids("bench"));
        let needed = |ids: &[&'static str]| ids.to_vec();
        for id in MINING_SHORT
            .iter()
            .map(|(id, _)| *id)
            .chain(MINING_NEEDED.iter().flat_map(|one| needed(one.ids)))
        {
            assert!(mining.contains(&id.to_owned()), "{id}");
        }
        for id in BENCH_SHORT
            .iter()
            .map(|(id, _)| *id)
            .chain(BENCH_NEEDED.iter().flat_map(|one| needed(one.ids)))
        {
            assert!(bench.contains(&id.to_owned()), "{id}");
        }
        for (name, headings) in [("stratum", &MINING_HEADINGS[1..]), ("bench", &BENCH_HEADINGS)] {
            let text = read_words(&[name, "--help"])
                .map(|_| ())
                .expect_err("help")
                .to_string();
            for (_, heading) in headings {
                assert!(
                    text.contains(&format!("\n{heading}:\n")),
                    "{name}: {heading}\n{text}"
                );
            }
        }
    }

    #[test]
    fn options_of_ethminer_are_answered_with_the_names_here() {
        for words in [
            &["-P", "stratum://w@pool:1"][..],
            &["-G", "-P", "http://node:8545"],
            &["stratum", "--pool", "stratum://w:secret@pool:1"],
        ] {
            let text = read_words(words).map(|_| ()).expect_err("refused").to_string();
            assert!(
                text.contains("'miner stratum URL' for a pool, 'miner getwork URL' for a node"),
                "{text}"
            );
            assert!(!text.contains("secret"), "{text}");
        }
        let text = read_words(&["--nonsense"])
            .map(|_| ())
            .expect_err("refused")
            .to_string();
        assert!(!text.contains("ethminer"), "{text}");
    }

    #[test]
    fn options_without_effect_are_named() {
        let check = |words: &[&str], expected: &[&str]| {
            let (_, warnings) = read_words(words).expect("options");
            assert_eq!(warnings, expected, "{words:?}");
        };
        check(
            &["getwork", "a", "--etchash-fork", "7"],
            &["--etchash-fork has no effect without --algo etchash"],
        );
        check(&["getwork", "a", "--etchash-fork", "7", "--algo", "etchash"], &[]);
        check(
            &["stratum", "a", "--device", "cpu", "--kernel", "lane"],
            &["--kernel has no effect with --device cpu"],
        );
        check(
            &["stratum", "a", "--status-hosts", "b"],
            &["--status-hosts has no effect without --status or --dashboard"],
        );
        check(
            &["bench", "--minutes", "1"],
            &["--minutes has no effect without --thorough"],
        );
        check(
            &["bench", "--thorough", "--out", "d", "--light"],
            &["--light has no effect with --thorough"],
        );
        check(&["verify", &"00".repeat(32), "1", "-", "1", "--epoch", "0"], &[]);
    }
}
