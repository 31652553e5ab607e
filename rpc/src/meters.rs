//! Counts and times of calls by method, through the `metrics` crate. The recorder is not known
//! here.
//!
//! The names begin with `vnode_rpc_`. A method has no metrics before its first call, so that what
//! is served stays short. Calls of methods that do not exist count together.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Instant;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

/// The meters of all methods.
pub(crate) struct Meters(HashMap<&'static str, OnceLock<Meter>>);

/// The meters of one method.
struct Meter {
    seconds: Histogram,
    failed: Counter,
}

impl Meters {
    pub(crate) fn new(methods: impl Iterator<Item = &'static str>) -> Self {
        Self(methods.map(|name| (name, OnceLock::new())).collect())
    }

    /// A call of `method` that began at `start` has ended.
    pub(crate) fn ended(&self, method: &'static str, start: Instant, failed: bool) {
        let Some(cell) = self.0.get(method) else { return };
        let meter = cell.get_or_init(|| Meter {
            seconds: histogram!("vnode_rpc_seconds", "method" => method),
            failed: counter!("vnode_rpc_errors_total", "method" => method),
        });
        meter.seconds.record(start.elapsed());
        if failed {
            meter.failed.increment(1);
        }
    }

    /// Requests were answered with an error before a method ran, or while it ran: `invalid`,
    /// `not_run` because the node is busy or the time is over, `limit` because the client calls too
    /// often, or `token` because it has no right token.
    pub(crate) fn refused(reason: &'static str, count: usize) {
        counter!("vnode_rpc_refused_total", "reason" => reason).increment(count as u64);
    }
}

/// Counts a connection over TCP while it lives, WebSockets included.
pub(crate) struct ConnectionMeter(Gauge);

impl ConnectionMeter {
    pub(crate) fn new() -> Self {
        let connections = gauge!("vnode_rpc_connections");
        connections.increment(1.0);
        counter!("vnode_rpc_connections_total").increment(1);
        Self(connections)
    }
}

impl Drop for ConnectionMeter {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
