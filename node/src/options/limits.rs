//! The options that limit what clients of the JSON-RPC servers can use.
//!
//! Each default is a constant of the package `rpc`, whose docs say what each limit means.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chain::logs::LogLimits;
use clap::Args;
use rpc::filters::{ANSWER_LEN_MAX, FILTERS_MAX, FilterLimits, IDLE_TIMEOUT as FILTER_IDLE_TIMEOUT};
use rpc::limits::{
    BATCH_LEN_MAX, BODY_LEN_MAX, BODY_TIMEOUT, CONNECTION_CALLS_MAX, CONNECTIONS_MAX, HEADER_TIMEOUT,
    IDLE_TIMEOUT, Limits, REQUEST_TIMEOUT, RESPONSE_LEN_MAX, SUBSCRIPTIONS_MAX, TRAFFIC_LEN_MAX,
    WRITE_TIMEOUT,
};

/// Limits of the JSON-RPC servers.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Limits of JSON-RPC")]
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
    /// Memory for requests being read and responses being sent, for all clients together, in MiB
    #[arg(long = "rpc.maxtraffic", value_name = "MIB", default_value_t = TRAFFIC_LEN_MAX >> 20, value_parser = positive)]
    pub traffic: usize,
    /// Most HTTP connections; the same number applies to WebSocket connections
    #[arg(long = "rpc.maxconnections", value_name = "N", default_value_t = CONNECTIONS_MAX, value_parser = positive)]
    pub connections: usize,
    /// Most messages of one WebSocket or local socket connection that are answered in parallel
    #[arg(long = "rpc.maxparallel", value_name = "N", default_value_t = CONNECTION_CALLS_MAX, value_parser = positive)]
    pub parallel: usize,
    /// Most filters of all clients; one client has at most half of those that no other has
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
    /// Longest time for a client to receive one message over WebSockets or the local socket, in
    /// seconds
    #[arg(long = "rpc.writetimeout", value_name = "SECONDS", default_value_t = Seconds(WRITE_TIMEOUT))]
    pub write_time: Seconds,
    /// Time after which a filter that is not polled is removed, in seconds
    #[arg(long = "rpc.filtertimeout", value_name = "SECONDS", default_value_t = Seconds(FILTER_IDLE_TIMEOUT))]
    pub filter_time: Seconds,
}

impl LimitOptions {
    /// The limits of the servers.
    pub fn servers(&self) -> Limits {
        Limits {
            body_len_max: self.body,
            response_len_max: self.response,
            batch_len_max: self.batch,
            traffic_len_max: self.traffic.saturating_mul(1 << 20),
            connections_max: self.connections,
            connection_calls_max: self.parallel,
            subscriptions_max: self.subscriptions,
            request_timeout: self.request_time.0,
            header_timeout: self.header_time.0,
            body_timeout: self.body_time.0,
            // A shorter idle timeout would end requests that the other two timeouts allow.
            idle_timeout: self.idle_time.0.max(self.request_time.0 + self.body_time.0),
            write_timeout: self.write_time.0,
            ..Limits::default()
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
            ..FilterLimits::default()
        }
    }
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("expected at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("expected a number: {error}")),
    }
}

/// A duration on the command line: at least a millisecond, at most a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(Duration);

impl FromStr for Seconds {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let range = 0.001..=86_400.0;
        match text.parse::<f64>() {
            Ok(seconds) if range.contains(&seconds) => Ok(Self(Duration::from_secs_f64(seconds))),
            _ => Err("expected seconds, 0.001 to 86400"),
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
            subscriptions_max: 7,
            request_timeout: Duration::from_secs(8),
            header_timeout: Duration::from_secs(9),
            body_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(18),
            write_timeout: Duration::from_millis(500),
            ..Limits::default()
        };
        assert_eq!(options.servers(), expected);
        let filters = FilterLimits {
            filters_max: 6,
            idle_timeout: Duration::from_secs(13),
            answer_len_max: 1000,
            ..FilterLimits::default()
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
            "--rpc.timeout=0",
            "--rpc.timeout=x",
            "--rpc.idletimeout=NaN",
            "--rpc.filtertimeout=inf",
        ] {
            assert!(parse(&[bad]).is_err(), "{bad}");
        }
    }
}
