//! Handles each packet of another node.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use primitives::{B256, B512, Bytes, Enode, keccak256};

use super::{Awaited, Discovery, DiscoveryEvent, LASTING_AGE, PendingAnswer, RESERVED_PORTS};
use crate::address;
use crate::contact::NodeContact;
use crate::discovery::packet::{
    DiscoveryDialect, DiscoveryPacket, NEIGHBORS_IN_PACKET, PacketEndpoint, PacketTail, ReadPacket,
};
use crate::discovery::table::{BUCKET_NODES_MAX, ContactKind};
use crate::discovery::values::VALUES_IN_ANSWER;
use crate::enr::NodeRecord;
use crate::moment::Moment;

impl Discovery {
    pub(super) fn take(&mut self, read: ReadPacket, from: SocketAddr, now: Moment) {
        let ReadPacket { id, hash, packet, .. } = read;
        let has_proven = self.bonds.has_proven(&id, from.ip(), now.elapsed);
        match packet {
            DiscoveryPacket::Ping {
                from: sender, tail, ..
            } => {
                let contact = NodeContact {
                    id,
                    ip: from.ip(),
                    udp: from.port(),
                    tcp: sender.tcp,
                };
                self.take_ping(contact, hash, tail, now);
            }
            DiscoveryPacket::Pong { to, ping_hash, tail } => {
                self.take_pong((id, from), to.ip, ping_hash, tail, now);
            }
            DiscoveryPacket::FindNode {
                target,
                brothers_only,
            } if has_proven => {
                self.answer_find(&target, brothers_only, from, now);
            }
            DiscoveryPacket::Neighbors { nodes } => self.take_neighbors(&id, from.ip(), nodes),
            DiscoveryPacket::EnrRequest if has_proven => {
                let record = Bytes::from(self.record.encode());
                let answer = DiscoveryPacket::EnrResponse {
                    request_hash: hash,
                    record,
                };
                self.send(from, &answer, now);
            }
            DiscoveryPacket::EnrResponse { request_hash, record } => {
                let is_asked =
                    |awaited: &Awaited| matches!(awaited, Awaited::Record { hash } if *hash == request_hash);
                let record = NodeRecord::decode(&record);
                if let (Some(_), Ok(record)) = (self.take_pending(&id, is_asked), record)
                    && record.id() == id
                {
                    if let Some(state) = self.bonds.get(&id) {
                        state.record_sequence = record.sequence();
                    }
                    self.take_record(record, from.ip(), now);
                }
            }
            DiscoveryPacket::Store { key, .. }
                if has_proven && self.values.put(key, id, from, now.elapsed) =>
            {
                self.send(from, &DiscoveryPacket::StoreReply, now);
            }
            DiscoveryPacket::FindValue { key } if has_proven => {
                let value = self.values.get(&key, from.ip(), now.elapsed, &mut self.entropy);
                let value = Bytes::from(value.into_bytes());
                self.send(from, &DiscoveryPacket::FindValueReply { key, value }, now);
            }
            DiscoveryPacket::FindValueReply { key, value } => {
                let is_asked =
                    |awaited: &Awaited| matches!(awaited, Awaited::Values { key: asked } if *asked == key);
                if self.take_pending(&id, is_asked).is_some() {
                    let nodes = enodes(&value, from.ip());
                    self.tell(DiscoveryEvent::Values { key, nodes });
                }
            }
            // A request of an unproven address, or a StoreReply, which has no meaning.
            _ => {}
        }
    }

    /// Whether this node has just asked the node at `ip`, so that its PING is expected.
    fn has_asked(&self, id: &B512, ip: IpAddr) -> bool {
        let mut pending = self.pending.iter();
        pending.any(|pending| pending.id == *id && pending.awaited.ip() == Some(ip))
    }

    /// Takes the record that a node at `from` has sent of itself. If the record has another address
    /// that the node may tell, the address is asked before anybody connects to it.
    fn take_record(&mut self, record: NodeRecord, from: IpAddr, now: Moment) {
        let moved = record.contact().filter(|contact| contact.ip != from);
        if let Some(moved) = moved.filter(|moved| self.is_usable(moved, from)) {
            self.ping(moved, false, now);
        }
        let record = Box::new(record);
        self.tell(DiscoveryEvent::Record { record, from });
    }

    /// Whether a node of which `from` has told may be asked.
    fn is_usable(&self, node: &NodeContact, from: IpAddr) -> bool {
        let ranges = self.settings.ranges.as_ref();
        node.udp > RESERVED_PORTS
            && address::may_tell(from, node.ip)
            && ranges.is_none_or(|ranges| ranges.contains(node.ip))
            && self.bonds.kind(&node.id) != ContactKind::Alien
    }

    pub(super) fn take_ping(&mut self, contact: NodeContact, hash: B256, tail: PacketTail, now: Moment) {
        let has_proven = self.bonds.has_proven(&contact.id, contact.ip, now.elapsed);
        if !has_proven
            && !self.has_asked(&contact.id, contact.ip)
            && !self.ping_budget.take(contact.ip, now.elapsed)
        {
            return;
        }
        self.bonds.touch(contact.id, contact.ip, now.elapsed);
        let kind = self.take_tail(&contact.id, tail);
        if self.settings.is_strict && kind != ContactKind::Brother {
            return;
        }
        let pong = DiscoveryPacket::Pong {
            to: PacketEndpoint::new(contact.ip, contact.udp, contact.tcp),
            ping_hash: hash,
            tail: self.own_tail(),
        };
        self.send(contact.udp_address(), &pong, now);
        let state = self.bonds.touch(contact.id, contact.ip, now.elapsed);
        state.was_answered(now.elapsed);
        state.announced_sequence = tail.record_sequence.unwrap_or_default();
        if kind == ContactKind::Alien {
            return;
        }
        if has_proven {
            self.add_to_table(contact, now.elapsed);
            self.ask_for_new_record(&contact, tail, now);
        } else {
            self.ping(contact, false, now);
        }
        // Searches that waited for this PING may ask now.
        let waits = |awaited: &Awaited| matches!(awaited, Awaited::TheirPing { .. });
        while let Some(Awaited::TheirPing { lookup, contact }) = self.take_pending(&contact.id, waits) {
            self.ask_for_nodes(lookup, contact, now);
        }
    }

    pub(super) fn take_pong(
        &mut self,
        (id, from): (B512, SocketAddr),
        seen_ip: IpAddr,
        ping_hash: B256,
        tail: PacketTail,
        now: Moment,
    ) {
        let is_asked = |awaited: &Awaited| matches!(awaited, Awaited::Pong { hash, to, .. } if *hash == ping_hash && to.ip() == from.ip());
        let Some(Awaited::Pong {
            contact, is_check, ..
        }) = self.take_pending(&id, is_asked)
        else {
            return;
        };
        let state = self.bonds.touch(id, from.ip(), now.elapsed);
        let is_new = state.answered(now.elapsed);
        state.announced_sequence = tail.record_sequence.unwrap_or_default();
        let kind = self.take_tail(&id, tail);
        let is_refused =
            kind == ContactKind::Alien || (self.settings.is_strict && kind != ContactKind::Brother);
        if !is_refused {
            self.told_addresses.put(from.ip(), seen_ip, now.elapsed);
            self.renew_record();
            self.add_to_table(contact, now.elapsed);
            if is_new {
                self.tell(DiscoveryEvent::Verified(contact));
            }
            let added = self.table.get(&id).map(|entry| entry.added);
            if is_check && added.is_some_and(|added| now.elapsed >= added + LASTING_AGE) {
                self.tell(DiscoveryEvent::Lasting(contact));
            }
            // Before, the node would not answer.
            if self.bonds.knows_us(&id, now.elapsed) {
                self.ask_for_new_record(&contact, tail, now);
            }
        }
        let waits = |awaited: &Awaited| matches!(awaited, Awaited::Bond { .. });
        while let Some(Awaited::Bond { lookup, contact }) = self.take_pending(&id, waits) {
            if is_refused {
                self.end_query(lookup, &id, false);
            } else if self.bonds.knows_us(&id, now.elapsed) {
                self.ask_for_nodes(lookup, contact, now);
            } else if !self.await_answer(id, Awaited::TheirPing { lookup, contact }, now.elapsed) {
                self.end_query(lookup, &id, false);
            }
        }
    }

    /// Asks for the node's record if it has a newer one than this node knows.
    fn ask_for_new_record(&mut self, contact: &NodeContact, tail: PacketTail, now: Moment) {
        let known = self
            .bonds
            .get(&contact.id)
            .map_or(0, |state| state.record_sequence);
        let is_asked = |pending: &PendingAnswer| {
            pending.id == contact.id && matches!(pending.awaited, Awaited::Record { .. })
        };
        if tail.record_sequence.is_some_and(|sequence| sequence > known) && !self.pending.iter().any(is_asked)
        {
            self.ask_for_record(contact.id, contact.udp_address(), now);
        }
    }

    /// Reads what follows the usual fields. Returns the sender's kind.
    pub(super) fn take_tail(&mut self, id: &B512, tail: PacketTail) -> ContactKind {
        let DiscoveryDialect::Public { network_id } = self.settings.dialect else {
            return ContactKind::Unknown;
        };
        match tail.network_id {
            Some(got) if got == network_id => self.raise(id, ContactKind::Brother),
            Some(got) if got != 0 => self.raise(id, ContactKind::Alien),
            _ => self.bonds.kind(id),
        }
    }

    pub(super) fn raise(&mut self, id: &B512, kind: ContactKind) -> ContactKind {
        let kind = self.bonds.raise(id, kind);
        if kind == ContactKind::Alien {
            self.table.remove(id, &mut self.entropy);
        } else {
            self.table.set_kind(id, kind);
        }
        kind
    }

    pub(super) fn add_to_table(&mut self, contact: NodeContact, now: Duration) {
        if contact.udp > RESERVED_PORTS {
            let kind = self.bonds.kind(&contact.id);
            self.table.add(contact, kind, now);
        }
    }

    pub(super) fn answer_find(&mut self, target: &B512, brothers_only: bool, to: SocketAddr, now: Moment) {
        let is_public = matches!(self.settings.dialect, DiscoveryDialect::Public { .. });
        let brothers_only = brothers_only || self.settings.is_strict;
        let is_told = |kind: ContactKind| match (is_public, brothers_only) {
            (false, _) => true,
            (true, false) => kind >= ContactKind::Uncle,
            (true, true) => kind == ContactKind::Brother,
        };
        let nodes = self.table.closest(&keccak256(target), BUCKET_NODES_MAX, |entry| {
            is_told(entry.kind) && address::may_tell(to.ip(), entry.contact.ip)
        });
        if nodes.is_empty() && !is_public {
            // Ethereum's clients wait for an answer, even if it is empty.
            self.send(to, &DiscoveryPacket::Neighbors { nodes: Vec::new() }, now);
        }
        for part in nodes.chunks(NEIGHBORS_IN_PACKET) {
            let nodes = part.to_vec();
            self.send(to, &DiscoveryPacket::Neighbors { nodes }, now);
        }
    }

    pub(super) fn take_neighbors(&mut self, id: &B512, from: IpAddr, nodes: Vec<NodeContact>) {
        let is_asked = |pending: &&mut PendingAnswer| {
            pending.id == *id && matches!(pending.awaited, Awaited::Neighbors { .. })
        };
        let Some(PendingAnswer {
            awaited: Awaited::Neighbors { lookup, received },
            ..
        }) = self.pending.iter_mut().find(is_asked)
        else {
            return;
        };
        *received += nodes.len();
        let (lookup, is_complete) = (*lookup, *received >= BUCKET_NODES_MAX);
        let usable: Vec<_> = nodes
            .into_iter()
            .take(BUCKET_NODES_MAX)
            .filter(|node| self.is_usable(node, from))
            .collect();
        if let Some(search) = self.lookups.get_mut(&lookup) {
            search.add(usable);
        }
        if is_complete {
            self.take_pending(id, |awaited| matches!(awaited, Awaited::Neighbors { .. }));
            self.end_query(lookup, id, true);
        }
    }
}

/// The enodes in an answer that `from` may tell, at most [`VALUES_IN_ANSWER`]. Those whose host is
/// a name are left out: nobody has proven to be there.
pub(super) fn enodes(value: &[u8], from: IpAddr) -> Vec<Enode> {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let parts = text.split(',').filter(|part| !part.is_empty());
    let is_told = |enode: &Enode| {
        let contact = NodeContact::from_enode(enode);
        contact.is_some_and(|contact| address::may_tell(from, contact.ip))
    };
    parts
        .take(VALUES_IN_ANSWER)
        .filter_map(|part| part.parse().ok())
        .filter(is_told)
        .collect()
}
