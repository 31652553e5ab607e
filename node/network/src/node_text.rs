//! The texts by which users name a node: an enode URL, or the text of its record.

use primitives::{Enode, EnodeError};

use crate::enr::{NodeRecord, NodeRecordError, RECORD_PREFIX};

/// A fault of a text that names no node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeTextError {
    /// The text is not an enode URL.
    #[error(transparent)]
    Enode(#[from] EnodeError),
    /// The text begins as a node record does, but is none.
    #[error(transparent)]
    Record(#[from] NodeRecordError),
    /// The record does not say where its node is.
    #[error("node record: got one without an address, expected one with ip or ip6")]
    NoAddress,
}

/// Reads an enode URL, or the text of a node record (`enr:…`), whose signature is checked. Both are
/// enode URLs from here on.
///
/// # Errors
/// [`NodeTextError`] if the text is neither, or the record has no address.
pub fn read_node(text: &str) -> Result<Enode, NodeTextError> {
    if !text.starts_with(RECORD_PREFIX) {
        return Ok(text.parse()?);
    }
    let record: NodeRecord = text.parse()?;
    record
        .contact()
        .map(|contact| contact.to_enode())
        .ok_or(NodeTextError::NoAddress)
}

#[cfg(test)]
mod tests {
    use primitives::{SecretKey, hex};

    use super::*;
    use crate::enr::{NodeClaims, RECORD_BYTES_MAX};

    #[test]
    fn records_are_read_as_enodes_are() {
        let key = SecretKey::from_bytes(&[7; 32]).expect("a key");
        let claims = |ip: &str, tcp| NodeClaims {
            ip: Some(ip.parse().expect("an address")),
            tcp,
            udp: 30301,
            fork_id: None,
            has_snap: false,
        };
        let sign = |claims: &NodeClaims| NodeRecord::sign(&key, 3, claims).to_string();
        for (ip, host) in [("10.3.58.6", "10.3.58.6"), ("2a00::1", "[2a00::1]")] {
            let enode = read_node(&sign(&claims(ip, 30303))).expect("a good record");
            let id = hex::encode(key.public_key());
            assert_eq!(
                enode.to_string(),
                format!("enode://{id}@{host}:30303?discport=30301")
            );
            assert_eq!(read_node(&enode.to_string()), Ok(enode));
        }
        // A node for discovery alone, such as a boot node, has no TCP port.
        let closed = read_node(&sign(&claims("10.3.58.6", 0))).expect("a good record");
        assert_eq!((closed.port, closed.discovery_port), (0, 30301));
        // A record that was changed, one without an address, a long text.
        let good = sign(&claims("10.3.58.6", 30303));
        let changed = format!("{}A{}", &good[..20], &good[21..]);
        let nowhere = sign(&NodeClaims::default());
        let long = format!("enr:{}", "A".repeat(2 * RECORD_BYTES_MAX));
        let check = |text: &str, expected: &str| {
            let error = read_node(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&changed, "the signature is not that of the record's key");
        check(&nowhere, "without an address");
        check(&long, "expected enr: and base64");
        check("enr:-", "node record");
        check("http://a", "expected enode://ID@HOST:PORT");
    }
}
