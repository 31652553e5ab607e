//! Metrics of the chain: head, imports, pool, work, files, calls, and the process itself.

use std::path::PathBuf;

use chain::Chain;
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_process::Collector as ProcessCollector;

use super::Collector;
use crate::mining::LocalMiner;
use crate::version::client_version;

/// Reads the state of the chain and of its files in `directory`.
pub(crate) fn chain_collector(chain: Chain, directory: PathBuf) -> Collector {
    describe();
    // A counter of something that has not happened yet is 0, not unknown.
    counter!("vnode_reorganizations_total").increment(0);
    gauge!("vnode_info", "version" => client_version()).set(1.0);
    Box::new(move || {
        collect_head(&chain);
        let (pending, queued) = chain.pool().counts();
        gauge!("vnode_pool_transactions", "state" => "pending").set(pending as f64);
        gauge!("vnode_pool_transactions", "state" => "queued").set(queued as f64);
        gauge!("vnode_failed").set(f64::from(u8::from(chain.failure().is_some())));
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Ok(data) = entry.metadata()
                && data.is_file()
                && name.starts_with("chain.")
            {
                gauge!("vnode_store_file_bytes", "file" => name).set(data.len() as f64);
            }
        }
    })
}

/// Reads the search for seals in this process.
pub(crate) fn mining_collector(miner: LocalMiner, chain: Chain) -> Collector {
    describe_gauge!("vnode_mining", "1 if this process searches for seals.");
    describe_gauge!("vnode_device_hashes_per_second", "Hashes per second by device.");
    describe_gauge!(
        "vnode_reported_hashes_per_second",
        "Hashes per second that miners have reported by mc_submitHashrate."
    );
    Box::new(move || {
        gauge!("vnode_mining").set(f64::from(u8::from(chain.work().mining())));
        for (device, rate) in miner.devices() {
            gauge!("vnode_device_hashes_per_second", "device" => device).set(rate);
        }
        let reported = chain.work().reported_hashrate();
        gauge!("vnode_reported_hashes_per_second").set(f64::from(reported));
    })
}

/// Reads processor time, memory, descriptors and threads of this process. The names are those of
/// other programs: `process_cpu_seconds_total` and so on.
pub fn process_collector() -> Collector {
    let process = ProcessCollector::default();
    process.describe();
    Box::new(move || process.collect())
}

fn collect_head(chain: &Chain) {
    let Ok(view) = chain.view() else { return };
    let header = &view.head().header;
    let age = chain::unix_now().as_secs().saturating_sub(header.timestamp);
    gauge!("vnode_head_number").set(header.number as f64);
    gauge!("vnode_head_age_seconds").set(age as f64);
    gauge!("vnode_head_difficulty").set(f64::from(header.difficulty));
    gauge!("vnode_head_total_difficulty").set(f64::from(view.head().total_difficulty));
    gauge!("vnode_head_gas_limit").set(header.gas_limit as f64);
    gauge!("vnode_head_gas_used").set(header.gas_used as f64);
}

fn describe() {
    describe_gauge!("vnode_info", "1, with the version of the node.");
    describe_gauge!("vnode_failed", "1 if the chain can accept no more blocks.");
    describe_gauge!("vnode_head_number", "Number of the head.");
    describe_gauge!(
        "vnode_head_age_seconds",
        Unit::Seconds,
        "Time since the head's timestamp."
    );
    describe_gauge!("vnode_head_difficulty", "Difficulty of the head.");
    describe_gauge!("vnode_head_total_difficulty", "Total difficulty of the chain.");
    describe_gauge!("vnode_head_gas_limit", "Gas limit of the head.");
    describe_gauge!("vnode_head_gas_used", "Gas that the head uses.");
    describe_gauge!("vnode_pool_transactions", "Transactions that wait, by state.");
    describe_counter!(
        "vnode_pool_offers_total",
        "Transactions that were offered to the pool, by result."
    );
    describe_counter!(
        "vnode_blocks_total",
        "Blocks that came, by what became of them: head, side, known, later, invalid, filled, or \
         refused (not stored: no space, a limit of branches, a failure)."
    );
    describe_histogram!(
        "vnode_import_stage_seconds",
        Unit::Seconds,
        "Time of each stage of an import. A run of blocks has one commit, and its roots are also \
         computed beside the execution."
    );
    describe_counter!("vnode_reorganizations_total", "Reorganizations.");
    describe_histogram!(
        "vnode_reorganization_blocks",
        "Blocks that a reorganization has taken back."
    );
    describe_histogram!(
        "vnode_work_build_seconds",
        Unit::Seconds,
        "Time to build a block for miners."
    );
    describe_counter!("vnode_solutions_total", "Solutions of miners, by result.");
    describe_gauge!(
        "vnode_store_file_bytes",
        Unit::Bytes,
        "Length of each file of the store."
    );
    describe_counter!(
        "vnode_store_reads_total",
        "Reads of the database file: pages that no cache had."
    );
    describe_counter!(
        "vnode_store_read_bytes_total",
        Unit::Bytes,
        "Bytes read from the database file."
    );
    describe_counter!(
        "vnode_store_written_bytes_total",
        Unit::Bytes,
        "Bytes of pages written to the database file."
    );
    describe_histogram!(
        "vnode_rpc_seconds",
        Unit::Seconds,
        "Time from the start of a call to its answer, by method, with its wait for a thread."
    );
    describe_counter!(
        "vnode_rpc_errors_total",
        "Calls that were answered with an error, by method."
    );
    describe_counter!(
        "vnode_rpc_refused_total",
        "Requests that were answered before a method ran, by reason."
    );
    describe_gauge!(
        "vnode_rpc_connections",
        "Connections of the HTTP and WebSocket servers."
    );
    describe_counter!(
        "vnode_rpc_connections_total",
        "Connections of the HTTP and WebSocket servers so far."
    );
}
