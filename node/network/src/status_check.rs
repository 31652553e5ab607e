//! Whether a peer's Status fits: the same version, network, block 0 and past forks.
//!
//! Source: docs/p2p.md, 2 and 6; EIP-2124.

use alloy_eip2124::{ForkFilter, ValidationError};
use primitives::B256;

use crate::messages::{PeerMessage, PeerStatus, WireProtocol};

/// The reason why a peer is of no use. The peer is told so by a Disconnect with reason 16, and is
/// remembered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StatusMismatch {
    /// The first message is another one.
    #[error("first message: got another one than Status")]
    NoStatus,
    /// The version is not that of the capability.
    #[error("version in Status: got {got}, expected {expected}")]
    Version {
        /// The version of the peer.
        got: u64,
        /// The version of the connection.
        expected: u64,
    },
    /// The peer is of another network.
    #[error("network id: got {got}, expected {expected}")]
    Network {
        /// The network of the peer.
        got: u64,
        /// Our network.
        expected: u64,
    },
    /// The peer has another block 0.
    #[error("hash of block 0: got {got}, expected {expected}")]
    Genesis {
        /// The hash of the peer.
        got: B256,
        /// Our hash.
        expected: B256,
    },
    /// The peer has other forks.
    #[error("fork id: {0}")]
    Forks(ValidationError),
}

/// Compares a peer's Status with `own`. `forks` judges the fork id, where the version has one.
///
/// # Errors
/// [`StatusMismatch`] if the peer is of no use.
pub(crate) fn check_status<'a>(
    message: &'a PeerMessage,
    protocol: WireProtocol,
    own: &PeerStatus,
    forks: Option<&ForkFilter>,
) -> Result<&'a PeerStatus, StatusMismatch> {
    let PeerMessage::Status(got) = message else {
        return Err(StatusMismatch::NoStatus);
    };
    if got.version != protocol.version() {
        return Err(StatusMismatch::Version {
            got: got.version,
            expected: protocol.version(),
        });
    }
    if got.network_id != own.network_id {
        return Err(StatusMismatch::Network {
            got: got.network_id,
            expected: own.network_id,
        });
    }
    if got.genesis != own.genesis {
        return Err(StatusMismatch::Genesis {
            got: got.genesis,
            expected: own.genesis,
        });
    }
    if let (Some(forks), Some(fork_id)) = (forks, got.fork_id) {
        forks.validate(fork_id).map_err(StatusMismatch::Forks)?;
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use alloy_eip2124::{ForkFilterKey, ForkHash, ForkId};
    use primitives::U256;

    use super::*;
    use crate::fork_id::fork_head;
    use crate::messages::WireFamily;

    #[test]
    fn each_difference_is_named() {
        let protocol = WireFamily::Eth.protocol(66).expect("known");
        let genesis = B256::repeat_byte(7);
        let forks = ForkFilter::new(fork_head(5), genesis, 0, [ForkFilterKey::Block(3)]);
        let own = PeerStatus {
            version: 66,
            network_id: 99,
            total_difficulty: U256::from(1),
            head: genesis,
            genesis,
            fork_id: Some(forks.current()),
        };
        let check = |change: &dyn Fn(&mut PeerStatus)| {
            let mut got = own.clone();
            change(&mut got);
            let checked = check_status(&PeerMessage::Status(got), protocol, &own, Some(&forks)).map(|_| ());
            checked.map_err(|error| error.to_string())
        };
        assert_eq!(check(&|_| ()), Ok(()));
        assert_eq!(check(&|got| got.total_difficulty = U256::MAX), Ok(()));
        let refused = |text: &str| Err(text.to_owned());
        assert_eq!(
            check(&|got| got.version = 65),
            refused("version in Status: got 65, expected 66")
        );
        assert_eq!(
            check(&|got| got.network_id = 1),
            refused("network id: got 1, expected 99")
        );
        let error = check(&|got| got.genesis = B256::ZERO).expect_err("another chain");
        assert!(error.starts_with("hash of block 0: got 0x0000"), "{error}");
        let other = ForkId {
            hash: ForkHash([9; 4]),
            next: 0,
        };
        let error = check(&|got| got.fork_id = Some(other)).expect_err("other forks");
        assert!(error.starts_with("fork id: "), "{error}");
        let message = PeerMessage::NewBlockHashes(Vec::new());
        assert_eq!(
            check_status(&message, protocol, &own, None),
            Err(StatusMismatch::NoStatus)
        );
    }
}
