//! The receivers of each message: the table of docs/scs-wire.md, 5.

use crate::message::{BroadcastStatus, ControlStatus, MessageKind};

/// The role of an SCS in a MicroChain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScsRole {
    /// No part in the chain.
    None,
    /// Makes blocks.
    Consensus,
    /// Watches.
    Monitor,
    /// In reserve.
    Backup,
    /// May be chosen when the chain opens.
    Selectable,
}

impl ScsRole {
    /// The role with the number that contracts use. A number without meaning is no role.
    pub const fn from_number(number: u64) -> Self {
        match number {
            1 => Self::Consensus,
            2 => Self::Monitor,
            3 => Self::Backup,
            4 => Self::Selectable,
            _ => Self::None,
        }
    }
}

/// Whether a message goes to the SCS that it names, whatever the role of that SCS.
pub(super) const fn is_addressed(kind: MessageKind) -> bool {
    matches!(
        kind,
        MessageKind::Broadcast(BroadcastStatus::SyncRequest | BroadcastStatus::SyncComplete)
    )
}

/// Whether an SCS with this role gets a message of this kind. Messages that [`is_addressed`] names
/// are not judged by roles.
pub(super) const fn passes(role: ScsRole, kind: MessageKind) -> bool {
    match kind {
        MessageKind::DirectCall { .. } => matches!(role, ScsRole::Consensus),
        MessageKind::Broadcast(status) => broadcast_passes(role, status),
        MessageKind::Control(status) => control_passes(role, status),
        MessageKind::ShakeHand { .. } | MessageKind::Ping { .. } | MessageKind::Unknown { .. } => false,
    }
}

const fn broadcast_passes(role: ScsRole, status: BroadcastStatus) -> bool {
    use BroadcastStatus as Status;
    match role {
        ScsRole::Consensus => true,
        ScsRole::Monitor | ScsRole::Backup => !matches!(
            status,
            Status::RandomShares | Status::SignatureShares | Status::SharesRequest
        ),
        ScsRole::Selectable | ScsRole::None => false,
    }
}

const fn control_passes(role: ScsRole, status: ControlStatus) -> bool {
    use ControlStatus as Status;
    match role {
        ScsRole::Consensus => !matches!(
            status,
            Status::RegisterOpen | Status::RegisterAdd | Status::RegisterAsMonitor | Status::RegisterAsBackup
        ),
        ScsRole::Monitor => matches!(
            status,
            Status::RegisterAsMonitor | Status::Distribute | Status::Reset
        ),
        ScsRole::Backup => matches!(
            status,
            Status::RegisterAsBackup | Status::Distribute | Status::Reset
        ),
        ScsRole::Selectable => matches!(
            status,
            Status::RegisterOpen | Status::RegisterAdd | Status::Distribute | Status::Release
        ),
        ScsRole::None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::OWN_STATUS_FIRST;

    /// The statuses below 20 of messages of `kind` that an SCS with this role gets.
    fn statuses(role: u64, kind: i32) -> Vec<i32> {
        let role = ScsRole::from_number(role);
        let gets = |status: &i32| passes(role, MessageKind::new(kind, *status));
        (0..20).filter(gets).collect()
    }

    #[test]
    fn roles_get_what_the_table_says() {
        let all = || (0..20).collect::<Vec<_>>();
        let without = |left_out: &[i32]| (0..20).filter(|one| !left_out.contains(one)).collect::<Vec<_>>();
        for (role, calls, broadcasts, controls) in [
            (0, vec![], vec![], vec![]),
            (1, all(), all(), without(&[0, 5, 6, 7])),
            (2, vec![], without(&[3, 4, 5]), vec![6, 9, 10]),
            (3, vec![], without(&[3, 4, 5]), vec![7, 9, 10]),
            (4, vec![], vec![], vec![0, 5, 9, 13]),
            (5, vec![], vec![], vec![]),
        ] {
            let got = [1, 2, 3].map(|kind| statuses(role, kind));
            assert_eq!(got, [calls, broadcasts, controls], "role {role}");
            for kind in [0, 4, 5, 6] {
                assert!(statuses(role, kind).is_empty(), "kind {kind}");
            }
        }
        let addressed = |status: &i32| is_addressed(MessageKind::new(2, *status));
        assert_eq!((0..20).filter(addressed).collect::<Vec<_>>(), [1, 2]);
        assert!(!is_addressed(MessageKind::new(3, 1)));
    }

    #[test]
    fn our_own_broadcasts_go_to_all_that_take_part() {
        let kind = MessageKind::new(2, OWN_STATUS_FIRST);
        let gets = [0, 1, 2, 3, 4].map(|role| passes(ScsRole::from_number(role), kind));
        assert_eq!(gets, [false, true, true, true, false]);
    }
}
