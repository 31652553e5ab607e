//! A DNS server over UDP on loopback, with texts only, and lists of nodes for it (EIP-1459).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use data_encoding::BASE32_NOPAD;
use network::testing::NodeRecord;
use primitives::{SecretKey, keccak256};

const TXT: [u8; 2] = [0, 16];
const NO_SUCH_NAME: u8 = 3;
/// The interval at which the server looks whether it must end.
const STEP: Duration = Duration::from_millis(20);

/// Names and their texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct DnsZone {
    pub(crate) texts: BTreeMap<String, Vec<String>>,
    /// Names that are never answered.
    pub(crate) silent: BTreeSet<String>,
}

/// The label of an entry.
pub(crate) fn label(text: &str) -> String {
    BASE32_NOPAD.encode(&keccak256(text)[..16])
}

/// A root whose signature is that of `key`.
pub(crate) fn root(key: &SecretKey, nodes: &str, sequence: u64) -> String {
    let signed = format!(
        "enrtree-root:v1 e={nodes} l={} seq={sequence}",
        label("enrtree-branch:")
    );
    let signature = key.sign(&keccak256(&signed)).to_rsv();
    format!("{signed} sig={}", URL_SAFE_NO_PAD.encode(signature))
}

impl DnsZone {
    /// Puts an entry below `domain`. Returns its label.
    pub(crate) fn put(&mut self, domain: &str, text: &str) -> String {
        let label = label(text);
        self.texts
            .insert(format!("{label}.{domain}"), vec![text.to_owned()]);
        label
    }

    /// Puts branches over the entries with these labels, `width` to a branch. Returns the label of
    /// the uppermost one.
    pub(crate) fn put_branches(&mut self, domain: &str, mut labels: Vec<String>, width: usize) -> String {
        loop {
            let branches = labels.chunks(width);
            labels = branches
                .map(|labels| self.put(domain, &format!("enrtree-branch:{}", labels.join(","))))
                .collect();
            if labels.len() == 1 {
                return labels.remove(0);
            }
        }
    }

    /// Puts a list of nodes below `domain`.
    pub(crate) fn put_list(&mut self, domain: &str, key: &SecretKey, sequence: u64, nodes: &[NodeRecord]) {
        let labels = nodes
            .iter()
            .map(|node| self.put(domain, &node.to_string()))
            .collect();
        let top = self.put_branches(domain, labels, 3);
        let root = root(key, &top, sequence);
        // Other texts may stand beside the root.
        let texts = vec!["v=spf1 -all".to_owned(), root];
        self.texts.insert(domain.to_owned(), texts);
    }
}

/// A server that ends when this is dropped.
pub(crate) struct DnsServer {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

impl DnsServer {
    pub(crate) fn start(zone: DnsZone) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        socket.set_read_timeout(Some(STEP)).expect("a timeout");
        let server = Self {
            address: socket.local_addr().expect("an address"),
            asked: Arc::default(),
            ends: Arc::default(),
        };
        let (asked, ends) = (Arc::clone(&server.asked), Arc::clone(&server.ends));
        std::thread::spawn(move || {
            let mut packet = [0; 1500];
            while !ends.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut packet) else {
                    continue;
                };
                asked.fetch_add(1, Ordering::Relaxed);
                if let Some(answer) = answer(&zone, &packet[..length]) {
                    socket.send_to(&answer, from).expect("sent");
                }
            }
        });
        server
    }
}

/// The answer to a question (RFC 1035, 4). `None` if there is none.
fn answer(zone: &DnsZone, packet: &[u8]) -> Option<Vec<u8>> {
    let mut labels = Vec::new();
    let mut at = 12;
    loop {
        let length = usize::from(*packet.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(std::str::from_utf8(packet.get(at..at + length)?).ok()?);
        at += length;
    }
    let question = packet.get(12..at + 4)?;
    let name = labels.join(".");
    // Domains have no case.
    let same = |other: &&String| other.eq_ignore_ascii_case(&name);
    if zone.silent.iter().any(|other| same(&other)) {
        return None;
    }
    let is_text = packet.get(at..at + 2)? == TXT;
    let found = zone.texts.keys().find(same).filter(|_| is_text);
    let texts = found.map(|name| zone.texts[name].as_slice()).unwrap_or_default();
    let code = if found.is_some() { 0 } else { NO_SUCH_NAME };
    // A response, with recursion.
    let mut out = vec![packet[0], packet[1], 0x81, 0x80 | code, 0, 1];
    out.extend(u16::try_from(texts.len()).ok()?.to_be_bytes());
    out.extend([0; 4]);
    out.extend(question);
    for text in texts {
        // The name is that of the question; class 1, a minute to live.
        out.extend([0xc0, 12]);
        out.extend(TXT);
        out.extend([0, 1, 0, 0, 0, 60]);
        let strings: Vec<u8> = text
            .as_bytes()
            .chunks(255)
            .flat_map(|part| [&[part.len() as u8], part].concat())
            .collect();
        out.extend(u16::try_from(strings.len()).ok()?.to_be_bytes());
        out.extend(strings);
    }
    Some(out)
}
