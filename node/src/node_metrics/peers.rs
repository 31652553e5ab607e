//! Metrics of peers: how many, what they carry, why they left, how far the synchronization is.

use std::sync::atomic::{AtomicUsize, Ordering};

use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge};
use network::{ENDED_BY_OTHER, NetworkHandle, PeerReport, RlpxDisconnect, SyncStage};

use super::Collector;

/// Peers with figures of their own. A peer is named by its place among the connections, because
/// ids are chosen by strangers, and each new one would be kept for ever. Those in later places have
/// no figures here; `admin_peers` has them.
const SLOTS_MAX: usize = 64;

/// Reads the state of the network.
pub(crate) fn peer_collector(network: NetworkHandle) -> Collector {
    describe();
    describe_slots();
    let slots = AtomicUsize::new(0);
    Box::new(move || {
        collect_peers(&network, &slots);
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
    describe_counter!(
        "vnode_peer_left_out_messages_total",
        "Messages that were left out: unasked, more than the peer's share, or no memory for them."
    );
    describe_counter!("vnode_peer_dials_total", "Nodes that were dialled, by result.");
    describe_counter!(
        "vnode_peer_foreign_nodes_total",
        "Nodes that were not dialled, because their records say that they are of another network."
    );
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
    describe_gauge!(
        "vnode_sync_state",
        "Counts of the state that is fetched: accounts, slots, codes, bytes, healed trie nodes, peers that have it."
    );
}

fn describe_slots() {
    describe_gauge!(
        "vnode_peer_slot_since_seconds",
        "When the peer in this place came, in seconds since 1970; 0 if the place is free."
    );
    describe_gauge!(
        "vnode_peer_slot_inbound",
        "1 if the peer in this place has dialled by itself."
    );
    describe_gauge!(
        "vnode_peer_slot_bytes",
        "Bytes of messages without compression since the peer came, by direction."
    );
    describe_gauge!(
        "vnode_peer_slot_round_trip_seconds",
        "Usual time from a request to the peer's answer; 0 before the first answer."
    );
    describe_gauge!(
        "vnode_peer_slot_late_answers",
        "Requests that the peer did not answer in time."
    );
    describe_gauge!(
        "vnode_peer_slot_faults",
        "What the peer did wrong without losing its place."
    );
    describe_gauge!(
        "vnode_peer_slot_difficulty",
        "Total difficulty of the peer's head, as it says."
    );
}

/// The figures of each peer. `slots` is how many places have had a peer so far.
fn collect_slots(peers: &[PeerReport], slots: &AtomicUsize) {
    let highest = peers.iter().map(|peer| peer.slot + 1).max().unwrap_or(0);
    let highest = highest.min(SLOTS_MAX);
    let before = slots.fetch_max(highest, Ordering::Relaxed);
    for slot in 0..before.max(highest) {
        let peer = peers.iter().find(|peer| peer.slot == slot);
        let set = |name: &'static str, value: fn(&PeerReport) -> f64| {
            gauge!(name, "slot" => slot.to_string()).set(peer.map_or(0.0, value));
        };
        set("vnode_peer_slot_since_seconds", |peer| peer.since as f64);
        set("vnode_peer_slot_inbound", |peer| {
            f64::from(u8::from(peer.is_inbound))
        });
        set("vnode_peer_slot_round_trip_seconds", |peer| {
            peer.figures.round_trip.unwrap_or_default().as_secs_f64()
        });
        set("vnode_peer_slot_late_answers", |peer| {
            peer.figures.late_answers as f64
        });
        set("vnode_peer_slot_faults", |peer| peer.figures.faults as f64);
        set("vnode_peer_slot_difficulty", |peer| {
            peer.head.map_or(0.0, |(_, difficulty)| f64::from(difficulty))
        });
        let traffic = peer.map(|peer| peer.traffic).unwrap_or_default();
        for (direction, bytes) in [("in", traffic.bytes_in), ("out", traffic.bytes_out)] {
            let labels = [("slot", slot.to_string()), ("direction", direction.to_owned())];
            gauge!("vnode_peer_slot_bytes", &labels).set(bytes as f64);
        }
    }
}

fn collect_peers(network: &NetworkHandle, slots: &AtomicUsize) {
    let peers = network.peers();
    collect_slots(&peers, slots);
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
    counter!("vnode_peer_left_out_messages_total").absolute(traffic.messages_left_out);
    let good = traffic.dials.saturating_sub(traffic.failed_dials);
    counter!("vnode_peer_dials_total", "result" => "good").absolute(good);
    counter!("vnode_peer_dials_total", "result" => "failed").absolute(traffic.failed_dials);
    counter!("vnode_peer_foreign_nodes_total").absolute(traffic.foreign_nodes);
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
    if let Some(state) = progress.state {
        let figures = state.figures;
        for (what, count) in [
            ("accounts", figures.accounts),
            ("slots", figures.slots),
            ("codes", figures.codes),
            ("bytes", figures.bytes),
            ("healed", figures.healed),
            ("peers", state.peers as u64),
        ] {
            gauge!("vnode_sync_state", "what" => what).set(count as f64);
        }
    }
}
