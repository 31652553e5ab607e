//! The command line options of each command, with their defaults. The doc comments here are the
//! help texts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use daemon::Hosts;
use engine::gpu::KernelRequest;
use engine::{DeviceChoice, Intensity};
use ethash::{B256, ETCHASH_FORK_BLOCK, Schedule};
use miner::bench::BenchDevices;

use super::rig_options::{ApiOptions, CareOptions, CostOptions};

/// Ethash and Etchash mining on CPUs and graphics adapters.
#[derive(Debug, Parser)]
#[command(name = "miner", version, max_term_width = 100)]
pub(crate) struct CliOptions {
    #[command(subcommand)]
    pub(crate) command: MinerCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MinerCommand {
    /// Mine for a node, with getWork over HTTP.
    #[command(args_override_self = true)]
    Getwork(GetworkOptions),
    /// Mine for a pool, or a node's Stratum server.
    #[command(args_override_self = true)]
    Stratum(StratumOptions),
    /// List the devices, and say why one is not used.
    #[command(long_flag = "list-devices", short_flag = 'L')]
    Devices {
        /// The choice that is explained, as for mining.
        #[arg(long, value_name = "DEVICES", default_value_t = DeviceChoice::Auto)]
        device: DeviceChoice,
    },
    /// Measure hashrates, dataset and memory.
    Bench(BenchOptions),
    /// Check a solution, and say why it is not valid.
    Verify(VerifyOptions),
    /// Print the completions of a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the man pages into a folder.
    Manual {
        /// The folder, which is created if it is missing.
        folder: PathBuf,
    },
}

/// Options of `getwork`.
#[derive(Debug, Args)]
pub(crate) struct GetworkOptions {
    /// Nodes, such as <http://localhost:8545>. The first is preferred; the others are used while it
    /// fails.
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// Milliseconds between two requests for work.
    #[arg(long, visible_alias = "poll", value_name = "MS", default_value_t = 200, value_parser = RangedU64ValueParser::<u64>::new().range(1..=60_000))]
    pub(crate) farm_recheck: u64,
    #[command(flatten)]
    pub(crate) mining: MiningOptions,
}

/// Options of `stratum`.
#[derive(Debug, Args)]
pub(crate) struct StratumOptions {
    /// Pools, as stratum+tcp://WALLET.WORKER:PASSWORD@HOST:PORT. The first is preferred; the others
    /// are used while it fails. stratum1 is eth-proxy, stratum2 is EthereumStratum/1.0.0, stratum3
    /// is EthereumStratum/2.0.0; stratum finds out the dialect. +ssl in place of +tcp encrypts.
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// WALLET or WALLET.WORKER for all pools whose address has no user.
    #[arg(long, short = 'u', value_name = "ACCOUNT")]
    pub(crate) user: Option<String>,
    /// Password for all pools whose address has none.
    #[arg(
        long,
        short = 'p',
        value_name = "TEXT",
        env = "MINER_PASSWORD",
        hide_env_values = true
    )]
    pub(crate) password: Option<String>,
    #[command(flatten)]
    pub(crate) mining: MiningOptions,
}

/// The proof-of-work algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Algorithm {
    /// Epochs of 30,000 blocks.
    Ethash,
    /// Epochs of 60,000 blocks from the fork block on.
    Etchash,
}

/// Options that decide which epoch a block belongs to.
#[derive(Debug, Args)]
pub(crate) struct ScheduleOptions {
    /// The proof-of-work algorithm.
    #[arg(
        long,
        visible_alias = "algorithm",
        value_name = "NAME",
        default_value = "ethash"
    )]
    pub(crate) algo: Algorithm,
    /// First block with the long epochs of Etchash.
    #[arg(long, value_name = "N", default_value_t = ETCHASH_FORK_BLOCK)]
    pub(crate) etchash_fork: u64,
}

impl ScheduleOptions {
    pub(crate) const fn schedule(&self) -> Schedule {
        match self.algo {
            Algorithm::Ethash => Schedule::Ethash,
            Algorithm::Etchash => Schedule::Etchash {
                fork_block: self.etchash_fork,
            },
        }
    }
}

/// The place of the full dataset of CPU threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CpuDataset {
    /// No full dataset: threads hash from the light cache.
    Never,
    /// In memory.
    Memory,
    /// In a file in the folder of `--dagdir`.
    Disk,
}

/// Options of both `getwork` and `stratum`.
#[derive(Debug, Args)]
pub(crate) struct MiningOptions {
    /// Devices that search: auto, all (every hardware card), cpu, gpu, gpu:0,2 or cpu,gpu:0.
    #[arg(long, visible_alias = "miner.device", value_name = "DEVICES", default_value_t = DeviceChoice::Auto)]
    pub(crate) device: DeviceChoice,
    /// CPU threads [default: all].
    #[arg(long, short = 't', value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=4096))]
    pub(crate) threads: Option<usize>,
    /// Percentage of the time in which each device searches. With less, a desktop stays usable.
    #[arg(long, visible_alias = "miner.intensity", value_name = "PERCENT", default_value_t = Intensity::FULL)]
    pub(crate) intensity: Intensity,
    /// Priority of the CPU threads, as a nice value: 0 is normal, 19 lets all other programs run
    /// first.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=19))]
    pub(crate) nice: u8,
    /// Milliseconds for which batches occupy a card at most before it takes new work.
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = RangedU64ValueParser::<u64>::new().range(1..=10_000))]
    pub(crate) batch: u64,
    /// Search kernel of graphics adapters: lane, shuffle2, shuffle or group, with +wide, +slicesN
    /// and :WORKGROUP as wanted. auto measures at the
    /// first start which kernel is fastest, and stores the result in gpu-kernels.json beside the
    /// dataset files or in the user's cache folder.
    #[arg(long, value_name = "KERNEL", default_value = "auto")]
    pub(crate) kernel: KernelRequest,
    /// Place of the full dataset of CPU threads [default: memory; disk if --dagdir is given].
    #[arg(long, value_name = "WHERE")]
    pub(crate) dataset: Option<CpuDataset>,
    /// Folder for dataset files (full-R23-...).
    #[arg(long, visible_alias = "ethash.dagdir", value_name = "DIR")]
    pub(crate) dagdir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) schedule: ScheduleOptions,

    /// Seconds between two reports of the hashrate, for pools at least 30; 0: never.
    #[arg(long, short = 'R', value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_value = "5", default_missing_value = "5", value_parser = seconds)]
    pub(crate) report_hashrate: Duration,
    /// Leave an endpoint that gives no new work for this many seconds.
    #[arg(long, value_name = "SECONDS", default_value = "180", value_parser = seconds_above_zero)]
    pub(crate) work_timeout: Duration,
    /// Time limit in seconds for connecting, and for an answer.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds_above_zero)]
    pub(crate) response_timeout: Duration,
    /// Seconds before a failed endpoint is tried again; doubled with each failure.
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds_above_zero)]
    pub(crate) retry_delay: Duration,
    /// The longest time in seconds before a failed endpoint is tried again.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds_above_zero)]
    pub(crate) retry_max: Duration,
    /// End with exit code 3 after this many seconds without a connection; 0: never.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    pub(crate) max_wait: Duration,
    /// End with exit code 4 if there is work but no device computes a hash for this many seconds,
    /// or makes progress while it prepares, for at least 300 seconds; 0: never.
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = seconds)]
    pub(crate) stall_timeout: Duration,
    /// File of certificates (PEM) to trust in addition to the usual authorities.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Encrypt, but do not check who is at the other end.
    #[arg(long)]
    pub(crate) tls_trust_anybody: bool,

    /// Serve the status (JSON at /) and Prometheus metrics (/metrics) at this address, such as
    /// 127.0.0.1:3380.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) status: Option<SocketAddr>,
    /// Serve a page for browsers at this address, such as 127.0.0.1:3381: hashrates now and over
    /// the last day, answers to solutions, temperatures, the pool.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) dashboard: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) api: ApiOptions,
    #[command(flatten)]
    pub(crate) care: CareOptions,
    #[command(flatten)]
    pub(crate) costs: CostOptions,
    /// Host names that requests for the status and the dashboard may use, comma-separated; * allows
    /// all. Numeric addresses are always allowed.
    #[arg(long, value_name = "LIST", default_value = "localhost")]
    pub(crate) status_hosts: Hosts,
    /// Seconds between two log lines about the hashrate, if no table is shown.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds_above_zero)]
    pub(crate) log_every: Duration,
    /// Write log lines instead of a table, in a terminal too.
    #[arg(long)]
    pub(crate) plain: bool,
    /// Write the log as JSON, one line per event.
    #[arg(long)]
    pub(crate) log_json: bool,
}

/// Options of `bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    /// Devices to measure: auto, cpu, gpu, gpu:N, a list, or all, which includes software adapters.
    #[arg(long, default_value = "auto")]
    pub(crate) device: BenchDevices,
    /// The epoch whose cache and dataset are used.
    #[arg(long, default_value_t = 0)]
    pub(crate) epoch: u32,
    /// Seconds per measurement of a hashrate [default: 10]. A measurement of the memory takes half
    /// of that, and at most 2 seconds, for all ways of reading together.
    #[arg(long, value_name = "SECONDS", value_parser = bench_seconds)]
    pub(crate) seconds: Option<f64>,
    /// CPU threads [default: all].
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..=4096))]
    pub(crate) threads: Option<usize>,
    /// Search kernel of graphics adapters, as for mining. auto takes the fastest.
    #[arg(long, value_name = "KERNEL", default_value = "auto")]
    pub(crate) kernel: KernelRequest,
    /// Do not measure the full dataset.
    #[arg(long)]
    pub(crate) light: bool,
    /// Print JSON: an array with one object per device.
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a chart of the results to this file, as SVG.
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) thorough: ThoroughOptions,
}

/// Options of `bench` with `--thorough` or `--report`.
#[derive(Debug, Args)]
pub(crate) struct ThoroughOptions {
    /// Measure everything, from the most valuable figure to the least: all hardware cards (without
    /// any the software adapters, on small datasets), then the processor. Each figure goes to
    /// figures.jsonl in the folder of --out as it comes; another run goes on after the last one.
    /// --seconds is the time for each figure [default: 3].
    #[arg(long, requires = "out")]
    pub(crate) thorough: bool,
    /// Folder for the figures and the report.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// End cleanly after this many minutes.
    #[arg(long, value_name = "N", value_parser = minutes)]
    pub(crate) minutes: Option<Duration>,
    /// Only take figures whose key contains this text, such as gpu:0/full/e385.
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Sizes of datasets [default: full, or small if there are only software adapters].
    #[arg(long, value_name = "SCALE")]
    pub(crate) scale: Option<ScaleOption>,
    /// Mine for this node, too, such as <http://localhost:8545>.
    #[arg(long, value_name = "URL", conflicts_with = "vnode")]
    pub(crate) node: Option<String>,
    /// Mine for a new development network, too, with this program as its node.
    #[arg(long, value_name = "FILE")]
    pub(crate) vnode: Option<PathBuf>,
    /// Minutes of mining, at most half of the time that is left.
    #[arg(long, value_name = "N", default_value = "10", value_parser = minutes)]
    pub(crate) steady: Duration,
    /// Rate of another miner in MH/s, measured on the same card, epoch and run.
    #[arg(long, value_name = "NAME=MHS", value_parser = peer)]
    pub(crate) peer: Vec<(String, f64)>,
    /// Rate of another miner in MH/s that was published for such a card.
    #[arg(long, value_name = "NAME=MHS", value_parser = peer)]
    pub(crate) published: Vec<(String, f64)>,
    /// Only write the report of a folder of figures again, and print it.
    #[arg(long, value_name = "DIR", conflicts_with = "thorough")]
    pub(crate) report: Option<PathBuf>,
}

/// The sizes of datasets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScaleOption {
    /// The sizes of real epochs.
    Full,
    /// A few MiB.
    Small,
}

/// Options of `verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyOptions {
    /// Hash of the header without its seal.
    pub(crate) header_hash: B256,
    /// The nonce: up to sixteen hexadecimal digits, with or without 0x.
    #[arg(value_parser = nonce)]
    pub(crate) nonce: u64,
    /// The mix hash, or - if it is not known.
    #[arg(value_parser = mix_hash)]
    pub(crate) mix_hash: MixHashArgument,
    /// The boundary (0x and 64 digits), or a difficulty in decimal digits.
    #[arg(value_parser = boundary)]
    pub(crate) boundary: B256,
    /// The epoch.
    #[arg(long, group = "which", value_name = "N")]
    pub(crate) epoch: Option<u32>,
    /// The block number.
    #[arg(long, group = "which", value_name = "N")]
    pub(crate) number: Option<u64>,
    /// The seed hash, as in getWork.
    #[arg(long, group = "which", value_name = "HASH")]
    pub(crate) seed: Option<B256>,
    #[command(flatten)]
    pub(crate) schedule: ScheduleOptions,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The argument for the mix hash; `None` if it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MixHashArgument(pub(crate) Option<B256>);

/// The value of an option cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("got {got}, expected {expected}")]
pub(super) struct BadValue {
    got: String,
    expected: &'static str,
}

impl BadValue {
    pub(super) fn new(got: &str, expected: &'static str) -> Self {
        Self {
            got: got.to_owned(),
            expected,
        }
    }
}

/// Reads a time in seconds.
fn seconds(text: &str) -> Result<Duration, BadValue> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=1e9).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(BadValue::new(text, "a number of seconds, 0 or more")),
    }
}

fn seconds_above_zero(text: &str) -> Result<Duration, BadValue> {
    seconds(text).and_then(|time| {
        if time >= Duration::from_millis(1) {
            Ok(time)
        } else {
            Err(BadValue::new(text, "a number of seconds of at least 0.001"))
        }
    })
}

/// Reads the time of a measurement in seconds.
fn bench_seconds(text: &str) -> Result<f64, BadValue> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err(BadValue::new(text, "a number of seconds from 0 to 86400")),
    }
}

/// Reads a time in minutes.
fn minutes(text: &str) -> Result<Duration, BadValue> {
    match text.parse::<f64>() {
        Ok(minutes) if (0.0..=1e6).contains(&minutes) => Ok(Duration::from_secs_f64(minutes * 60.0)),
        _ => Err(BadValue::new(text, "a number of minutes from 0 to 1000000")),
    }
}

/// Reads the rate of another miner.
fn peer(text: &str) -> Result<(String, f64), BadValue> {
    let parts = text.rsplit_once('=');
    let read =
        parts.and_then(|(name, rate)| Some((name.trim().to_owned(), rate.trim().parse::<f64>().ok()?)));
    read.filter(|(name, rate)| !name.is_empty() && *rate > 0.0 && rate.is_finite())
        .ok_or_else(|| BadValue::new(text, "NAME=MHS, such as ethminer=45.2"))
}

/// Reads a nonce.
fn nonce(text: &str) -> Result<u64, BadValue> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let good = digits.len() <= 16 && !digits.starts_with('+');
    let nonce = good.then(|| u64::from_str_radix(digits, 16).ok()).flatten();
    nonce.ok_or_else(|| BadValue::new(text, "up to sixteen hexadecimal digits"))
}

/// Reads a mix hash or `-`.
fn mix_hash(text: &str) -> Result<MixHashArgument, BadValue> {
    if text == "-" {
        return Ok(MixHashArgument(None));
    }
    text.parse()
        .map(|hash| MixHashArgument(Some(hash)))
        .map_err(|_| BadValue::new(text, "64 hexadecimal digits or -"))
}

/// Reads a boundary or a difficulty.
fn boundary(text: &str) -> Result<B256, BadValue> {
    let bad = || BadValue::new(text, "0x and 64 hexadecimal digits, or a difficulty above 0");
    if text.starts_with("0x") || text.len() == 64 {
        return text.parse().map_err(|_| bad());
    }
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let difficulty: Option<ethash::U256> = digits.then(|| text.parse().ok()).flatten();
    match difficulty {
        Some(difficulty) if !difficulty.is_zero() => Ok(ethash::boundary(&difficulty)),
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<MinerCommand, clap::Error> {
        CliOptions::try_parse_from(std::iter::once(&"miner").chain(arguments)).map(|options| options.command)
    }

    #[test]
    fn options_of_other_miners_are_understood() {
        let Ok(MinerCommand::Getwork(options)) = parse(&["getwork", "-R", "http://a", "b:1", "--poll", "50"])
        else {
            panic!("good options");
        };
        assert_eq!((options.urls.len(), options.farm_recheck), (2, 50));
        assert_eq!(options.mining.report_hashrate, Duration::from_secs(5));
        let Ok(MinerCommand::Stratum(options)) = parse(&[
            "stratum",
            "stratum2+tcp://a",
            "--report-hashrate=0",
            "--status",
            "[::1]:1",
            "--api-port",
            "-3333",
            "--miner.device",
            "cpu,gpu:1",
            "--kernel",
            "group",
        ]) else {
            panic!("good options");
        };
        assert_eq!(options.mining.report_hashrate, Duration::ZERO);
        assert_eq!(options.mining.status.map(|address| address.port()), Some(1));
        assert_eq!(options.mining.api.api_port, Some(-3333));
        assert_eq!(Ok(options.mining.kernel), "group".parse());
    }

    #[test]
    fn bad_options_are_refused() {
        let hash = "00".repeat(32);
        for bad in [
            &["getwork"][..],
            &["stratum"],
            &["getwork", "a", "--intensity", "0"],
            &["getwork", "a", "--device", "tpu"],
            &["getwork", "a", "--kernel", "warp"],
            &["bench", "--kernel", ""],
            &["bench", "--thorough"],
            &["bench", "--thorough", "--out", "d", "--report", "d"],
            &["bench", "--thorough", "--out", "d", "--peer", "x"],
            &["bench", "--thorough", "--out", "d", "--peer", "=1"],
            &["bench", "--thorough", "--out", "d", "--peer", "x=-1"],
            &["bench", "--thorough", "--out", "d", "--minutes", "-1"],
            &["bench", "--thorough", "--out", "d", "--node", "a", "--vnode", "b"],
            &["getwork", "a", "--work-timeout", "0"],
            &["getwork", "a", "--max-wait", "-1"],
            &["getwork", "a", "--status", "3333"],
            &["getwork", "a", "--api-bind", "host:3333"],
            &["getwork", "a", "--api-port", "65536"],
            &["getwork", "a", "--tstop", "29"],
            &["getwork", "a", "--tstart", "50"],
            &["getwork", "a", "--pause-at", "07:00"],
            &["getwork", "a", "--fruitless", "-1"],
            &["verify", &hash, "1", &hash],
            &["verify", &hash, "xyz", &hash, "1"],
            &["verify", &hash, "00000000000000001", &hash, "1"],
            &["verify", &hash, "1", &hash, "0"],
            &["verify", &hash, "1", &hash, "0x12"],
            &["verify", &hash, "1", &hash, "1", "--epoch", "1", "--number", "1"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        let Ok(MinerCommand::Verify(options)) = parse(&["verify", &hash, "ff", "-", "512", "--epoch", "0"])
        else {
            panic!("good options");
        };
        assert_eq!((options.nonce, options.mix_hash), (255, MixHashArgument(None)));
        assert_eq!(options.boundary, ethash::boundary(&ethash::U256::from(512)));
    }
}
