//! The command line of `scs`.

use std::path::PathBuf;

use clap::{CommandFactory, FromArgMatches, Parser};
use node::{AccessOptions, LogOptions};
use rpc::Modules;
use rpc::server::{Cors, Hosts};

/// Default of `--period`, in seconds.
const PERIOD_SECS: u64 = 10;

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
    /// JSON file with the settings of the SCS
    /// [default: userconfig.json in the working directory, if it exists]
    #[arg(long, value_name = "FILE")]
    pub userconfig: Option<PathBuf>,
    /// Folder for the MicroChains [default: `DataDir` of the settings, or ./scsdata]
    #[arg(long, value_name = "DIR")]
    pub datadir: Option<PathBuf>,
    /// Password of the key in ./scskeystore, which is made on the first start
    /// [default: that of the public SCS]
    #[arg(long, value_name = "TEXT", env = "SCS_PASSWORD", hide_env_values = true)]
    pub password: Option<String>,
    /// Seconds between two blocks of a MicroChain; the same for all its SCSs
    #[arg(long, value_name = "SECONDS", default_value_t = PERIOD_SECS, value_parser = clap::value_parser!(u64).range(1..=scs_node::PERIOD_SECS_MAX))]
    pub period: u64,
    /// Amount of the log: 0 nothing, 1 errors, 2 warnings, 3 events, 4 details, 5 everything
    /// [default: `LogLevel` of the settings, or 3]
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=5))]
    pub verbosity: Option<u8>,
    /// The clients that may use the HTTP server.
    #[command(flatten)]
    pub access: AccessOptions,
    /// The log.
    #[command(flatten)]
    pub log: LogOptions,
}

impl ScsProgramOptions {
    /// The command line with its help. Variables of the environment begin with `SCS_`, so that they
    /// are not those of a VNODE beside it.
    pub fn command_line() -> clap::Command {
        Self::command()
            .mut_arg("rpc_tls_key", |option| option.env("SCS_RPC_TLS_KEY"))
            .mut_arg("rpc_tokens", |option| option.env("SCS_RPC_TOKENS"))
    }

    /// Reads the options of this process. Ends it with a message if they are wrong.
    pub fn of_process() -> Self {
        let matches = Self::command_line().get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!((options.rpcport, options.period), (8548, 10));
        assert!(options.rpcapi.contains("scs") && options.rpcapi.contains("net"));
        assert!(!options.rpcapi.contains("mc"));
        for bad in [
            "--vnode.tls.name=x",
            "--period=0",
            "--period=3601",
            "--rpcapi=eth2",
            "--rpc.tls.cert=x",
        ] {
            assert!(ScsProgramOptions::try_parse_from(["scs", bad]).is_err(), "{bad}");
        }
    }
}
