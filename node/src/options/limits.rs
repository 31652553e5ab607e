//! The options that limit what clients of the JSON-RPC servers can use.
//!
//! Each default is a constant of the package `rpc`, whose docs say what each limit means.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chain::call::{CALL_GAS_DEFAULT, TIMEOUT_DEFAULT as CALL_TIMEOUT};
use chain::logs::LogLimits;
use clap::Args;
use rpc::FeeCaps;
use rpc::filters::{ANSWER_LEN_MAX, FILTERS_MAX, FilterLimits, IDLE_TIMEOUT as FILTER_IDLE_TIMEOUT};
use rpc::limits::{
    BATCH_LEN_MAX, BODY_LEN_MAX, BODY_TIMEOUT, CLIENT_SHARE_PERCENT, CONNECTION_CALLS_MAX, CONNECTIONS_MAX,
    HEADER_TIMEOUT, IDLE_TIMEOUT, LOGS_TIMEOUT, Limits, READ_RATE_MIN, READY_AGE_MAX, REQUEST_TIMEOUT,
    RESPONSE_LEN_MAX, SUBSCRIPTIONS_MAX, TRACE_TIMEOUT_MAX, TRAFFIC_LEN_MAX, WAITING_CALLS_MAX,
    WRITE_TIMEOUT,
};

use super::values::{Coins, OptionValueError};

/// Limits of the JSON-RPC servers.
#[derive(Clone, Debug, Args)]
pub struct LimitOptions {
    /// Longest request, in bytes
    #[arg(long = "rpc.maxbody", value_name = "BYTES", default_value_t = BODY_LEN_MAX, value_parser = positive)]
    pub body: usize,
    /// Longest response, in bytes
    #[arg(long = "rpc.maxresponse", value_name = "BYTES", default_value_t = RESPONSE_LEN_MAX, value_parser = positive)]
    pub response: usize,
    /// Most requests in a batch
    #[arg(long = "rpc.maxbatch", value_name = "N", default_value_t = BATCH_LEN_MAX, value_parser = positive)]
    pub batch: usize,
    /// Memory for requests and responses, from their first byte until they are sent, for all
    /// clients together, in MiB; an eighth of it is left for the local socket
    #[arg(long = "rpc.maxtraffic", value_name = "MIB", default_value_t = TRAFFIC_LEN_MAX >> 20, value_parser = positive)]
    pub traffic: usize,
    /// Most HTTP connections; the same number applies to WebSocket connections. When all are taken,
    /// an idle one of the client that has the most idle ones makes room for a new one
    #[arg(long = "rpc.maxconnections", value_name = "N", default_value_t = CONNECTIONS_MAX, value_parser = positive)]
    pub connections: usize,
    /// Most messages of one WebSocket or local socket connection that are answered in parallel
    #[arg(long = "rpc.maxparallel", value_name = "N", default_value_t = CONNECTION_CALLS_MAX, value_parser = positive)]
    pub parallel: usize,
    /// Most calls that wait for a thread; the same number applies to calls that execute code
    #[arg(long = "rpc.maxwaiting", value_name = "N", default_value_t = WAITING_CALLS_MAX, value_parser = positive)]
    pub waiting: usize,
    /// The part that one client address may have of the connections, of the waiting calls, and of
    /// the memory for messages that no other client has, in percent; 100 for a node behind a
    /// reverse proxy
    #[arg(long = "rpc.clientshare", value_name = "PERCENT", default_value_t = CLIENT_SHARE_PERCENT, value_parser = percent)]
    pub client_share: usize,
    /// Most filters of all clients; one client has at most its share of those that no other has
    #[arg(long = "rpc.maxfilters", value_name = "N", default_value_t = FILTERS_MAX)]
    pub filters: usize,
    /// Most subscriptions of one connection
    #[arg(long = "rpc.maxsubscriptions", value_name = "N", default_value_t = SUBSCRIPTIONS_MAX)]
    pub subscriptions: usize,
    /// Most logs in one answer; 0: no limit
    #[arg(long = "rpc.logs.maxresults", value_name = "N", default_value_t = chain::logs::RESULTS_MAX)]
    pub logs_results: u64,
    /// Longest range of blocks that is searched for logs; 0: no limit
    #[arg(long = "rpc.logs.maxrange", value_name = "N", default_value_t = 0)]
    pub logs_range: u64,
    /// Most blocks whose logs are read for one answer; 0: no limit
    #[arg(long = "rpc.logs.maxblocks", value_name = "N", default_value_t = chain::logs::BLOCKS_READ_MAX)]
    pub logs_blocks: u64,
    /// Longest time to search for logs, in seconds
    #[arg(long = "rpc.logs.timeout", value_name = "SECONDS", default_value_t = Seconds(LOGS_TIMEOUT))]
    pub logs_time: Seconds,
    /// Most gas of a call or an estimate; 0: no limit
    #[arg(long = "rpc.gascap", value_name = "GAS", default_value_t = CALL_GAS_DEFAULT)]
    pub call_gas: u64,
    /// Most coins that the gas of a transaction may cost which this node signs, such as 0.5; 0: no
    /// limit [default: 1 for `eth_` methods and `personal_sendTransaction`, none for `mc_` methods]
    #[arg(long = "rpc.txfeecap", value_name = "COINS")]
    pub fee: Option<Coins>,
    /// Longest time for a call, or for all runs of an estimate, in seconds
    #[arg(long = "rpc.evmtimeout", value_name = "SECONDS", default_value_t = Seconds(CALL_TIMEOUT))]
    pub call_time: Seconds,
    /// Longest time for a trace, in seconds, whatever time its caller asks for
    #[arg(long = "rpc.trace.maxtimeout", value_name = "SECONDS", default_value_t = Seconds(TRACE_TIMEOUT_MAX))]
    pub trace_time: Seconds,
    /// Longest time to work on one request or batch, in seconds
    #[arg(long = "rpc.timeout", value_name = "SECONDS", default_value_t = Seconds(REQUEST_TIMEOUT))]
    pub request_time: Seconds,
    /// Longest time for the header of a request to arrive, in seconds
    #[arg(long = "rpc.headertimeout", value_name = "SECONDS", default_value_t = Seconds(HEADER_TIMEOUT))]
    pub header_time: Seconds,
    /// Longest time for the body of a request to arrive, in seconds
    #[arg(long = "rpc.bodytimeout", value_name = "SECONDS", default_value_t = Seconds(BODY_TIMEOUT))]
    pub body_time: Seconds,
    /// Time after which an idle connection is closed, in seconds; never shorter than a whole
    /// request may take
    #[arg(long = "rpc.idletimeout", value_name = "SECONDS", default_value_t = Seconds(IDLE_TIMEOUT))]
    pub idle_time: Seconds,
    /// Longest time for a client to receive one response or notification, in seconds; a client that
    /// receives it at the rate of --rpc.minrate gets the same time again
    #[arg(long = "rpc.writetimeout", value_name = "SECONDS", default_value_t = Seconds(WRITE_TIMEOUT))]
    pub write_time: Seconds,
    /// Least rate, in KiB a second, at which a client must receive a response that it has not
    /// received after --rpc.writetimeout; slower clients are disconnected
    #[arg(long = "rpc.minrate", value_name = "KIB", default_value_t = READ_RATE_MIN >> 10, value_parser = positive)]
    pub min_rate: usize,
    /// Age of the head, in seconds, up to which `GET /ready` says that the node is ready
    #[arg(long = "ready.maxage", value_name = "SECONDS", default_value_t = Seconds(READY_AGE_MAX))]
    pub ready_age: Seconds,
    /// Time that the sender of a transaction waits for its hash until the transaction has left for
    /// a peer, in milliseconds; if none was sent it in time, the answer is an error. 0: the hash is
    /// returned at once, and the transaction is lost if the node is killed in the next moment
    #[arg(long = "rpc.sendwait", value_name = "MS", default_value_t = 0)]
    pub send_wait_millis: u64,
    /// Time after which a filter that is not polled is removed, in seconds
    #[arg(long = "rpc.filtertimeout", value_name = "SECONDS", default_value_t = Seconds(FILTER_IDLE_TIMEOUT))]
    pub filter_time: Seconds,
}

impl LimitOptions {
    /// The most sha that the gas of a transaction may cost which this node signs.
    pub fn fee_caps(&self) -> FeeCaps {
        self.fee
            .map_or_else(FeeCaps::default, |Coins(max)| FeeCaps::all(max))
    }

    /// The limits of the servers.
    pub fn servers(&self) -> Limits {
        Limits {
            body_len_max: self.body,
            response_len_max: self.response,
            batch_len_max: self.batch,
            traffic_len_max: self.traffic.saturating_mul(1 << 20),
            connections_max: self.connections,
            waiting_calls_max: self.waiting,
            client_share_percent: self.client_share,
            connection_calls_max: self.parallel,
            subscriptions_max: self.subscriptions,
            request_timeout: self.request_time.0,
            header_timeout: self.header_time.0,
            body_timeout: self.body_time.0,
            // A shorter idle timeout would end requests that the other two timeouts allow.
            idle_timeout: self.idle_time.0.max(self.request_time.0 + self.body_time.0),
            write_timeout: self.write_time.0,
            read_rate_min: self.min_rate.saturating_mul(1 << 10),
            ready_age_max: self.ready_age.0,
            ..Limits::default()
        }
    }

    /// The most gas of a call.
    pub const fn call_gas_max(&self) -> u64 {
        if self.call_gas == 0 {
            u64::MAX / 2
        } else {
            self.call_gas
        }
    }

    /// The limits of a query for logs.
    pub fn logs(&self) -> LogLimits {
        let limit = |option| if option == 0 { u64::MAX } else { option };
        LogLimits {
            results_max: limit(self.logs_results),
            range_max: limit(self.logs_range),
            blocks_read_max: limit(self.logs_blocks),
        }
    }

    /// The limits of the filters.
    pub fn filters(&self) -> FilterLimits {
        FilterLimits {
            filters_max: self.filters,
            idle_timeout: self.filter_time.0,
            // Half of the response: a filter answer ends after the block that passes this length,
            // and that block is answered whole.
            answer_len_max: ANSWER_LEN_MAX.min(self.response / 2),
            client_share_percent: self.client_share,
        }
    }
}

fn positive(text: &str) -> Result<usize, OptionValueError> {
    match text.parse()? {
        0 => Err(OptionValueError::Zero),
        number => Ok(number),
    }
}

fn percent(text: &str) -> Result<usize, OptionValueError> {
    match positive(text)? {
        number @ 1..=100 => Ok(number),
        _ => Err(OptionValueError::Range { min: 1, max: 100 }),
    }
}

/// A duration on the command line: at least a millisecond, at most a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub Duration);

impl FromStr for Seconds {
    type Err = OptionValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let range = 0.001..=86_400.0;
        match text.parse::<f64>() {
            Ok(seconds) if range.contains(&seconds) => Ok(Self(Duration::from_secs_f64(seconds))),
            _ => Err(OptionValueError::Form("seconds, 0.001 to 86400")),
        }
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_secs_f64().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use primitives::U256;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct LimitsOnly {
        #[command(flatten)]
        limits: LimitOptions,
    }

    fn parse(arguments: &[&str]) -> Result<LimitOptions, clap::Error> {
        LimitsOnly::try_parse_from(std::iter::once(&"x").chain(arguments)).map(|parsed| parsed.limits)
    }

    #[test]
    fn defaults_are_those_of_the_servers() {
        let options = parse(&[]).unwrap();
        assert_eq!(options.servers(), Limits::default());
        assert_eq!(options.filters(), FilterLimits::default());
        let settings = rpc::NodeSettings::default();
        assert_eq!(options.logs_time.0, settings.logs_timeout);
        assert_eq!(options.trace_time.0, settings.trace_timeout_max);
        assert_eq!(options.call_time.0, settings.call_timeout);
        assert_eq!(options.call_gas_max(), settings.call_gas_max);
        assert_eq!(options.logs(), LogLimits::default());
    }

    #[test]
    fn every_option_sets_its_limit() {
        let options = parse(&[
            "--rpc.maxbody=1000",
            "--rpc.maxresponse=2000",
            "--rpc.maxbatch=3",
            "--rpc.maxtraffic=4",
            "--rpc.maxconnections=5",
            "--rpc.maxparallel=14",
            "--rpc.maxwaiting=15",
            "--rpc.clientshare=16",
            "--rpc.minrate=17",
            "--rpc.logs.timeout=18",
            "--rpc.trace.maxtimeout=19",
            "--rpc.gascap=20",
            "--rpc.evmtimeout=21",
            "--rpc.maxfilters=6",
            "--rpc.maxsubscriptions=7",
            "--rpc.timeout=8",
            "--rpc.headertimeout=9",
            "--rpc.bodytimeout=10",
            "--rpc.idletimeout=11",
            "--rpc.writetimeout=0.5",
            "--rpc.filtertimeout=13",
            "--rpc.logs.maxresults=0",
            "--rpc.logs.maxrange=12",
        ])
        .unwrap();
        let expected = Limits {
            body_len_max: 1000,
            response_len_max: 2000,
            batch_len_max: 3,
            traffic_len_max: 4 << 20,
            connections_max: 5,
            connection_calls_max: 14,
            waiting_calls_max: 15,
            client_share_percent: 16,
            read_rate_min: 17 << 10,
            subscriptions_max: 7,
            request_timeout: Duration::from_secs(8),
            header_timeout: Duration::from_secs(9),
            body_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(18),
            write_timeout: Duration::from_millis(500),
            ..Limits::default()
        };
        assert_eq!(options.servers(), expected);
        assert_eq!(options.logs_time, Seconds(Duration::from_secs(18)));
        assert_eq!(options.trace_time, Seconds(Duration::from_secs(19)));
        assert_eq!(options.call_gas_max(), 20);
        assert_eq!(options.call_time, Seconds(Duration::from_secs(21)));
        let unlimited = parse(&["--rpc.gascap=0", "--rpc.txfeecap=0"]).unwrap();
        assert!(unlimited.call_gas_max() > 1 << 60 && unlimited.fee_caps() == FeeCaps::all(U256::ZERO));
        let fees = parse(&["--rpc.txfeecap=0.25"]).unwrap().fee_caps();
        assert_eq!(fees, FeeCaps::all(U256::from(250_000_000_000_000_000_u64)));
        assert_eq!(parse(&[]).unwrap().fee_caps(), FeeCaps::default());
        let filters = FilterLimits {
            filters_max: 6,
            idle_timeout: Duration::from_secs(13),
            answer_len_max: 1000,
            client_share_percent: 16,
        };
        assert_eq!(options.filters(), filters);
        let logs = LogLimits {
            results_max: u64::MAX,
            range_max: 12,
            ..LogLimits::default()
        };
        assert_eq!(options.logs(), logs);
    }

    #[test]
    fn invalid_values_are_refused() {
        for bad in [
            "--rpc.maxbody=0",
            "--rpc.maxbatch=-1",
            "--rpc.clientshare=0",
            "--rpc.clientshare=101",
            "--rpc.timeout=0",
            "--rpc.timeout=x",
            "--rpc.idletimeout=NaN",
            "--rpc.filtertimeout=inf",
            "--rpc.txfeecap=-1",
            "--rpc.txfeecap=1e3",
        ] {
            assert!(parse(&[bad]).is_err(), "{bad}");
        }
    }
}
