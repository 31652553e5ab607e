//! Metrics of peers: how many, what they carry, why they left, how far the synchronization is.

use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge};
use network::peers::ENDED_BY_OTHER;
use network::rlpx::RlpxDisconnect;
use network::service::NetworkHandle;
use network::sync::SyncStage;

use super::Collector;

/// Reads the state of the network.
pub(crate) fn peer_collector(network: NetworkHandle) -> Collector {
    describe();
    Box::new(move || {
        collect_peers(&network);
        collect_counters(&network);
        collect_sync(&network);
    })
}

fn describe() {
    describe_gauge!("vnode_peers", "Peers, by who has dialled.");
    describe_gauge!(
        "vnode_subnet_peers",
        "Peers in the networks of application chains."
    );
    describe_gauge!(
        "vnode_subnets",
        "Networks of application chains that this node is part of."
    );
    describe_counter!("vnode_peer_joins_total", "Peers whose Status fitted.");
    describe_counter!(
        "vnode_peer_disconnects_total",
        "Connections that ended, by reason."
    );
    describe_counter!(
        "vnode_peer_faults_total",
        "Peers that lost their places by their own fault."
    );
    describe_counter!("vnode_peer_messages_total", "Messages, by direction.");
    describe_counter!(
        "vnode_peer_bytes_total",
        "Bytes of messages without compression, by direction."
    );
    describe_counter!(
        "vnode_peer_bad_messages_total",
        "Messages that could not be decoded."
    );
    describe_counter!("vnode_peer_dials_total", "Nodes that were dialled, by result.");
    describe_counter!("vnode_peer_requests_total", "Requests of peers.");
    describe_counter!(
        "vnode_peer_late_answers_total",
        "Requests that peers did not answer in time."
    );
    describe_counter!(
        "vnode_peer_blocks_total",
        "Blocks near the head, by what happened to them."
    );
    describe_counter!(
        "vnode_peer_transactions_total",
        "Transactions that peers have sent."
    );
    describe_histogram!(
        "vnode_block_arrival_seconds",
        "Time from a block's timestamp until it came."
    );
    describe_histogram!(
        "vnode_block_check_seconds",
        "Time to check a new block without executing it."
    );
    describe_histogram!(
        "vnode_block_import_seconds",
        "Time to import a new block of a peer."
    );
    describe_gauge!(
        "vnode_sync_stage",
        "1 for what the synchronization does: idle, headers, bodies."
    );
    describe_gauge!(
        "vnode_sync_head",
        "Number of the head, as the synchronization sees it."
    );
    describe_gauge!(
        "vnode_sync_best_header",
        "Number of the header with the most total difficulty."
    );
    describe_gauge!(
        "vnode_sync_highest",
        "Number of the highest block that a peer was found to have."
    );
    describe_gauge!(
        "vnode_sync_missing",
        "Blocks whose headers are here and whose bodies are not."
    );
}

fn collect_peers(network: &NetworkHandle) {
    let peers = network.peers();
    let inbound = peers.iter().filter(|peer| peer.is_inbound).count();
    gauge!("vnode_peers", "direction" => "inbound").set(inbound as f64);
    gauge!("vnode_peers", "direction" => "outbound").set((peers.len() - inbound) as f64);
    let subnets = network.subnets();
    gauge!("vnode_subnets").set(subnets.len() as f64);
    let members: usize = subnets.iter().map(|subnet| subnet.peers.len()).sum();
    gauge!("vnode_subnet_peers").set(members as f64);
}

fn collect_counters(network: &NetworkHandle) {
    let (peers, traffic) = network.counters();
    counter!("vnode_peer_joins_total").absolute(peers.joined);
    for (code, count) in &peers.ended {
        let reason = match u8::try_from(*code) {
            Ok(code) => RlpxDisconnect::from_code(code).to_string(),
            Err(_) if *code == ENDED_BY_OTHER => "ended by the peer".to_owned(),
            Err(_) => code.to_string(),
        };
        counter!("vnode_peer_disconnects_total", "reason" => reason).absolute(*count);
    }
    counter!("vnode_peer_faults_total").absolute(peers.faults);
    counter!("vnode_peer_requests_total").absolute(peers.requests);
    counter!("vnode_peer_late_answers_total").absolute(peers.late_answers);
    counter!("vnode_peer_transactions_total").absolute(peers.transactions_received);
    for (what, count) in [
        ("received", peers.blocks_received),
        ("fetched", peers.blocks_fetched),
        ("imported", peers.blocks_imported),
    ] {
        counter!("vnode_peer_blocks_total", "what" => what).absolute(count);
    }
    for (direction, messages, bytes) in [
        ("in", traffic.messages_in, traffic.bytes_in),
        ("out", traffic.messages_out, traffic.bytes_out),
    ] {
        counter!("vnode_peer_messages_total", "direction" => direction).absolute(messages);
        counter!("vnode_peer_bytes_total", "direction" => direction).absolute(bytes);
    }
    counter!("vnode_peer_bad_messages_total").absolute(traffic.bad_messages);
    let good = traffic.dials.saturating_sub(traffic.failed_dials);
    counter!("vnode_peer_dials_total", "result" => "good").absolute(good);
    counter!("vnode_peer_dials_total", "result" => "failed").absolute(traffic.failed_dials);
}

fn collect_sync(network: &NetworkHandle) {
    let progress = network.sync_progress();
    for stage in [SyncStage::Idle, SyncStage::Headers, SyncStage::Bodies] {
        let is_it = progress.stage() == stage;
        gauge!("vnode_sync_stage", "stage" => stage.name()).set(f64::from(u8::from(is_it)));
    }
    gauge!("vnode_sync_head").set(progress.head as f64);
    gauge!("vnode_sync_best_header").set(progress.best_header as f64);
    gauge!("vnode_sync_highest").set(progress.highest as f64);
    gauge!("vnode_sync_missing").set(progress.missing as f64);
}
