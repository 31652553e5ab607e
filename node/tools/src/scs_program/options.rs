//! The command line of `scs`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use chain::import::StateRetention;
use clap::{Command, CommandFactory, FromArgMatches, Parser, ValueEnum};
use command_line::{NeededOption, is_short_help, with_headings, with_short_help, without_effect};
use node::{AccessOptions, LogOptions, states_of};
use primitives::{Address, B256, parse_address};
use rpc::Modules;
use rpc::server::{Cors, Hosts};
use scs_node::BaseCheckpoint;
use scs_node::admission::{JoinMode, JoinRules};
use scs_service::client::ClientCertificate;

/// Default of `--period`, in seconds.
const PERIOD_SECS: u64 = 10;
/// The fewest recent states that can be asked for: those of two flushes.
const RECENT_STATES_MIN: u64 = 20_000;

/// The headings of the help, each with the long name of the option that it begins with.
const HEADINGS: [(&str, &str); 8] = [
    ("rpc", "JSON-RPC over HTTP"),
    ("vnode.tls.ca", "Connection to the VNODE"),
    ("userconfig", "Settings and key"),
    ("join", "MicroChains"),
    ("verbosity", "Log"),
    ("metrics", "Metrics and dashboard"),
    ("rpc.tls.cert", "Access to JSON-RPC"),
    ("log.json", "Log"),
];

/// The options of `-h`, each with its text.
const SHORT: [(&str, &str); 13] = [
    ("userconfig", "Settings [default: userconfig.json]"),
    ("datadir", "Folder of key and MicroChains"),
    ("password_file", "File with the password of the key"),
    ("join", "Join listed, known or any"),
    ("join_list", "Contracts that count as known"),
    ("chains", "MicroChains to serve as a monitor"),
    ("state", "States: archive or recent"),
    ("rpc", "Serve JSON-RPC over HTTP"),
    ("rpcaddr", "Address of HTTP"),
    ("rpcport", "Port of HTTP"),
    ("vnode_tls_ca", "Encrypt the connection to the VNODE"),
    ("metrics", "Serve metrics for Prometheus"),
    ("verbosity", "Amount of the log: 0 to 5"),
];

/// The examples below the help.
const EXAMPLES: &str = "\
Examples:
  scs --rpc --password-file password
  scs --userconfig userconfig.json --datadir scsdata --metrics 127.0.0.1:6061
  scs --join listed --join.list 0x22f0a5f0b2c1f29ba1ff7b7b7bd1b4a4fc07a2d7";

/// The options that need another one.
const NEEDED: [NeededOption<ScsProgramOptions>; 4] = [
    NeededOption {
        ids: &[
            "rpcaddr",
            "rpcport",
            "rpcapi",
            "rpccorsdomain",
            "rpc_tls_cert",
            "rpc_tls_key",
            "rpc_tokens",
            "rpc_rate",
            "rpc_rateburst",
        ],
        is_given: |options| options.rpc,
        needs: "without --rpc",
    },
    NeededOption {
        ids: &["rpcvhosts"],
        is_given: |options| options.rpc || options.metrics.is_some() || options.dashboard.is_some(),
        needs: "without --rpc, --metrics or --dashboard",
    },
    NeededOption {
        ids: &["verify_base_checkpoint", "verify_base_genesis"],
        is_given: |options| options.verify_base != VerifyBase::Off,
        needs: "without --verify-base",
    },
    NeededOption {
        ids: &["log_max_size", "log_max_backups"],
        is_given: |options| options.log.file.is_some(),
        needs: "without --log.file",
    },
];

/// A text names no states that an SCS can keep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("got {got:?}, expected archive, recent or recent:BLOCKS, with at least {RECENT_STATES_MIN} blocks")]
struct ScsStatesError {
    got: String,
}

/// Parses which past states are kept: `archive`, `recent`, or `recent:BLOCKS`.
fn parse_states(text: &str) -> Result<StateRetention, ScsStatesError> {
    let got = || ScsStatesError { got: text.to_owned() };
    states_of(text, RECENT_STATES_MIN).ok_or_else(got)
}

/// The checks of what the VNODE tells of the base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VerifyBase {
    /// Nothing is checked.
    Off,
    /// Headers without their seals, and proofs of state.
    Proofs,
    /// Headers with their seals, and proofs of state.
    Seals,
}

/// A server of application chains (MicroChains), connected to a base-chain node
#[derive(Clone, Debug, Parser)]
#[command(name = "scs", version, max_term_width = 100)]
pub struct ScsProgramOptions {
    /// Serve JSON-RPC over HTTP
    #[arg(long)]
    pub rpc: bool,
    /// HTTP listening address
    #[arg(long, value_name = "IP", default_value = rpc::server::http::HOST)]
    pub rpcaddr: String,
    /// HTTP listening port; 0 chooses a free port
    #[arg(long, value_name = "PORT", default_value_t = rpc::server::http::PORT_SCS)]
    pub rpcport: u16,
    /// Modules served over HTTP
    #[arg(long, value_name = "LIST", default_value = "scs,net")]
    pub rpcapi: Modules,
    /// Web origins that may call over HTTP, separated by commas; * allows all
    #[arg(long, value_name = "DOMAIN", default_value = "")]
    pub rpccorsdomain: Cors,
    /// Host names that HTTP requests may use, separated by commas; * allows all. Numeric addresses
    /// are always allowed
    #[arg(long, value_name = "NAMES", default_value = "localhost")]
    pub rpcvhosts: Hosts,
    /// Certificates (PEM) of the VNODE or of who signed it. The connection to the VNODE is then
    /// encrypted [default: plain text, as published VNODEs serve it]
    #[arg(long = "vnode.tls.ca", value_name = "FILE")]
    pub vnode_tls_ca: Option<PathBuf>,
    /// The name in the certificate of the VNODE [default: the host in `VnodeServiceCfg`]
    #[arg(long = "vnode.tls.name", value_name = "NAME", requires = "vnode_tls_ca")]
    pub vnode_tls_name: Option<String>,
    /// Certificate (PEM) of this SCS, for a VNODE that asks for one (`--scs.tls.clients`)
    #[arg(long = "vnode.tls.cert", value_name = "FILE", requires_all = ["vnode_tls_ca", "vnode_tls_key"])]
    pub vnode_tls_cert: Option<PathBuf>,
    /// Private key (PEM) of that certificate
    #[arg(long = "vnode.tls.key", value_name = "FILE", requires = "vnode_tls_cert")]
    pub vnode_tls_key: Option<PathBuf>,
    /// Checks of what the VNODE tells of the base chain: off believes it; seals asks for headers
    /// with seals and for proofs of all state; proofs does not check the seals, for chains without
    #[arg(long = "verify-base", value_name = "MODE", default_value = "off")]
    pub verify_base: VerifyBase,
    /// Block of the base chain that is believed, for --verify-base [default: the first header that
    /// the VNODE shows, 256 blocks below its head]
    #[arg(long = "verify-base.checkpoint", value_name = "NUMBER=HASH")]
    pub verify_base_checkpoint: Option<BaseCheckpoint>,
    /// Genesis file of a base chain other than the built-in ones, for its rules
    #[arg(long = "verify-base.genesis", value_name = "FILE")]
    pub verify_base_genesis: Option<PathBuf>,
    /// JSON file with the settings of the SCS
    /// [default: userconfig.json in the working directory, if it exists]
    #[arg(long, value_name = "FILE")]
    pub userconfig: Option<PathBuf>,
    /// Folder for the key and the MicroChains [default: `DataDir` of the settings, or ./scsdata]
    #[arg(long, value_name = "DIR")]
    pub datadir: Option<PathBuf>,
    /// File whose first line is the password of the key, which is made on the first start; a file
    /// is better than the variable `SCS_PASSWORD`, and that better than --password
    /// [default: the password of the public SCS, which everybody knows]
    #[arg(long, value_name = "FILE", conflicts_with = "password")]
    pub password_file: Option<PathBuf>,
    /// The password itself. Other users of this machine can read it on the command line
    #[arg(long, value_name = "TEXT", env = "SCS_PASSWORD", hide_env_values = true)]
    pub password: Option<String>,
    /// Encrypt a new key with less memory and time, which is less safe
    #[arg(long)]
    pub lightkdf: bool,
    /// MicroChains that the SCS joins: listed joins chain bases in --join.list; known also those
    /// whose code is known, with a pool whose code is known; any joins whatever says that it is a
    /// chain base: a contract of a stranger can then take the whole free bond in a published pool,
    /// and an owner all coins of a MicroChain
    #[arg(long, value_name = "MODE", default_value = "known")]
    pub join: JoinMode,
    /// Addresses of chain bases, and of pools of SCSs, that count as known, separated by commas
    #[arg(long = "join.list", value_name = "ADDRESSES", value_delimiter = ',', value_parser = parse_address)]
    pub join_list: Vec<Address>,
    /// Hashes of the code of chain bases, pools and `DappBase`s that count as known, separated by
    /// commas. The log names the hash of a contract that is refused
    #[arg(long = "join.code", value_name = "HASHES", value_delimiter = ',')]
    pub join_code: Vec<B256>,
    /// MicroChains that are served although this SCS has not registered with them, separated by
    /// commas: those of which it is the monitor
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_address)]
    pub chains: Vec<Address>,
    /// Seconds between two blocks of a MicroChain; the same for all its SCSs
    #[arg(long, value_name = "SECONDS", default_value_t = PERIOD_SECS, value_parser = clap::value_parser!(u64).range(1..=scs_node::PERIOD_SECS_MAX))]
    pub period: u64,
    /// Base blocks that must follow a proposal and its uploads before the SCS votes for it
    #[arg(long, value_name = "BLOCKS", default_value_t = scs_node::CONFIRMATIONS_DEFAULT, value_parser = clap::value_parser!(u64).range(0..=scs_node::CONFIRMATIONS_MAX))]
    pub confirmations: u64,
    /// Past states of MicroChains that are kept: archive for all; recent or recent:BLOCKS for those
    /// after the last BLOCKS blocks (recent: 100,000), and for all that the next flush needs.
    /// With recent, an SCS joins by a snapshot in place of all blocks
    #[arg(long, value_name = "STATES", default_value = "archive", value_parser = parse_states)]
    pub state: StateRetention,
    /// Newest blocks of MicroChains that are kept, at least 20,000; older ones go once two flushes
    /// cover them, with the states after them [default: all]
    #[arg(long, value_name = "BLOCKS", value_parser = clap::value_parser!(u64).range(RECENT_STATES_MIN..))]
    pub blocks: Option<u64>,
    /// Amount of the log: 0 nothing, 1 errors, 2 warnings, 3 events, 4 details, 5 everything
    /// [default: `LogLevel` of the settings, or 3]
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=5))]
    pub verbosity: Option<u8>,
    /// Serve metrics of the SCS for Prometheus at this address; for example 127.0.0.1:6061
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<SocketAddr>,
    /// Serve a page for browsers at this address: money for gas, MicroChains, and an explorer of
    /// each; for example 127.0.0.1:8582
    #[arg(long, value_name = "ADDRESS")]
    pub dashboard: Option<SocketAddr>,
    /// The clients that may use the HTTP server.
    #[command(flatten)]
    pub access: AccessOptions,
    /// The log.
    #[command(flatten)]
    pub log: LogOptions,
}

impl ScsProgramOptions {
    /// The certificate of this SCS, if there is one.
    pub fn vnode_certificate(&self) -> Option<ClientCertificate> {
        Some(ClientCertificate {
            certificates: self.vnode_tls_cert.clone()?,
            key: self.vnode_tls_key.clone()?,
        })
    }

    /// The command line with its help. Variables of the environment begin with `SCS_`, so that they
    /// are not those of a VNODE beside it.
    pub fn command_line() -> Command {
        with_headings(Self::command(), &HEADINGS)
            .after_help(EXAMPLES)
            .mut_arg("rpc_tls_key", |option| option.env("SCS_RPC_TLS_KEY"))
            .mut_arg("rpc_tokens", |option| option.env("SCS_RPC_TOKENS"))
    }

    /// The past states that are kept: those after blocks that are kept, at most.
    pub const fn states(&self) -> StateRetention {
        match (self.state, self.blocks) {
            (StateRetention::Recent { blocks }, Some(most)) if blocks < most => self.state,
            (_, Some(blocks)) => StateRetention::Recent { blocks },
            (states, None) => states,
        }
    }

    /// The MicroChains that the SCS joins.
    pub fn join_rules(&self) -> JoinRules {
        JoinRules {
            mode: self.join,
            listed: self.join_list.iter().copied().collect(),
            codes: self.join_code.iter().copied().collect(),
        }
    }

    /// Reads the options of this process, and names those that have no effect. Ends it with a
    /// message if they are wrong.
    pub fn of_process() -> (Self, Vec<String>) {
        let arguments: Vec<_> = std::env::args_os().collect();
        let read = Self::read(&arguments);
        read.unwrap_or_else(|error| error.exit())
    }

    fn read(arguments: &[OsString]) -> Result<(Self, Vec<String>), clap::Error> {
        let mut command = Self::command_line();
        if is_short_help(arguments) {
            command = with_short_help(command, &SHORT);
        }
        let matches = command.try_get_matches_from_mut(arguments)?;
        let options = Self::from_arg_matches(&matches)?;
        let warnings = without_effect(&command, &matches, &NEEDED, &options);
        Ok((options, warnings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<(ScsProgramOptions, Vec<String>), clap::Error> {
        let all = std::iter::once(&"scs").chain(arguments);
        ScsProgramOptions::read(&all.map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_short_help_fits_a_screen() {
        let text = read(&["-h"]).expect_err("help").to_string();
        assert!((24..=40).contains(&text.lines().count()), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let (options, examples) = text.split_once("Examples:\n").expect("examples");
        assert_eq!(examples.trim_end().lines().count(), 3);
        for line in examples.lines() {
            let arguments = line.split_whitespace();
            assert!(ScsProgramOptions::try_parse_from(arguments).is_ok(), "{line}");
        }
        assert_eq!(options.matches("\n      --").count(), SHORT.len(), "{options}");
        let all = read(&["--help"]).expect_err("help").to_string();
        for (_, heading) in HEADINGS {
            assert!(all.contains(&format!("\n{heading}:\n")), "{heading}");
        }
    }

    #[test]
    fn options_without_effect_are_named() {
        let check = |arguments: &[&str], expected: &[&str]| {
            let (_, warnings) = read(arguments).expect("options");
            assert_eq!(warnings, expected, "{arguments:?}");
        };
        check(&["--rpcport", "1"], &["--rpcport has no effect without --rpc"]);
        check(&["--rpcport", "1", "--rpc"], &[]);
        check(&["--rpcvhosts", "a", "--metrics", "127.0.0.1:0"], &[]);
        check(&["--rpcvhosts", "a", "--dashboard", "127.0.0.1:0"], &[]);
        check(
            &["--log.maxsize", "1"],
            &["--log.maxsize has no effect without --log.file"],
        );
    }

    #[test]
    fn variables_of_the_environment_are_its_own() {
        let command = ScsProgramOptions::command_line();
        let names: Vec<_> = command.get_arguments().filter_map(clap::Arg::get_env).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert!(
            names
                .iter()
                .all(|name| name.to_string_lossy().starts_with("SCS_")),
            "{names:?}"
        );
    }

    #[test]
    fn defaults_are_the_published_ones() {
        let options = ScsProgramOptions::try_parse_from(["scs"]).expect("no options");
        assert!(!options.rpc);
        assert_eq!(
            (options.rpcport, options.period, options.confirmations),
            (8548, 10, 12)
        );
        assert!(options.rpcapi.contains("scs") && options.rpcapi.contains("net"));
        assert!(!options.rpcapi.contains("mc"));
        let state = |text| {
            ScsProgramOptions::try_parse_from(["scs", text])
                .expect("states")
                .state
        };
        let kept = [
            options.state,
            state("--state=recent"),
            state("--state=recent:20000"),
        ];
        let recent = |blocks| StateRetention::Recent { blocks };
        assert_eq!(kept, [StateRetention::Archive, recent(100_000), recent(20_000)]);
        let both = ["scs", "--blocks=30000", "--state=recent:25000"];
        for (given, expected) in [(2, 30_000), (3, 25_000)] {
            let options = ScsProgramOptions::try_parse_from(&both[..given]).expect("blocks");
            assert_eq!(
                (options.blocks, options.states()),
                (Some(30_000), recent(expected))
            );
        }
        assert!(ScsProgramOptions::try_parse_from(["scs", "--blocks=100"]).is_err());
        for bad in [
            "--vnode.tls.name=x",
            "--vnode.tls.cert=x",
            "--chains=0x12",
            "--period=0",
            "--period=3601",
            "--confirmations=25",
            "--rpcapi=eth2",
            "--rpc.tls.cert=x",
            "--join=all",
            "--join.list=0x12",
            "--join.code=0x12",
            "--state=recent:19999",
            "--state=some",
        ] {
            assert!(ScsProgramOptions::try_parse_from(["scs", bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn contracts_are_named_by_address_and_by_code() {
        let rules = |arguments: &[&str]| {
            let all = [&["scs"], arguments].concat();
            ScsProgramOptions::try_parse_from(all)
                .expect("valid options")
                .join_rules()
        };
        let default = rules(&[]);
        assert_eq!(default.mode, JoinMode::Known);
        assert!(default.listed.is_empty() && default.codes.is_empty());
        let (one, two) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let code = B256::repeat_byte(3);
        let list = format!("--join.list={one:#x},{two:#x}");
        let codes = format!("--join.code={code}");
        let listed = rules(&["--join", "listed", &list, &codes]);
        assert_eq!(listed.mode, JoinMode::Listed);
        assert!(listed.listed.iter().eq(&[one, two]) && listed.codes.iter().eq(&[code]));
    }

    #[test]
    fn an_address_with_a_wrong_checksum_is_refused() {
        let right = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
        for option in ["--chains", "--join.list"] {
            let parse = |text: &str| ScsProgramOptions::try_parse_from(["scs", option, text]);
            assert!(parse(right).is_ok() && parse(&right.to_lowercase()).is_ok());
            let error = parse(&right.replace("39F", "39f")).expect_err("a wrong letter");
            assert!(error.to_string().contains("checksum"), "{error}");
        }
    }

    #[test]
    fn a_password_comes_from_one_place() {
        let both = ["scs", "--password", "one", "--password-file", "two"];
        let error = ScsProgramOptions::try_parse_from(both).expect_err("two passwords");
        let text = error.to_string();
        assert!(
            text.contains("--password-file") && text.contains("--password <TEXT>"),
            "{text}"
        );
    }
}
