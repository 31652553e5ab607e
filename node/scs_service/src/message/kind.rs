//! The kinds of messages, and the sorts of broadcasts and notices (docs/scs-wire.md, 2).

/// The first status of a broadcast that only programs of this project use among themselves.
///
/// The published VNODE passes a broadcast of any status on, and sends those above 6 to SCSs that
/// take part in consensus, watch or are in reserve. A program that does not know a status ignores
/// the message. So extensions travel as broadcasts with a status from here to 127. The first ones
/// are in docs/microchain-design.md, 7. The others are reserved.
pub const OWN_STATUS_FIRST: i32 = 64;

/// The purpose of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A transaction for a MicroChain.
    DirectCall {
        /// Of no meaning.
        status: i32,
    },
    /// From an SCS to other SCSs.
    Broadcast(BroadcastStatus),
    /// A notice of a contract.
    Control(ControlStatus),
    /// A handshake.
    ShakeHand {
        /// Of no meaning; an answer repeats it.
        status: i32,
    },
    /// A ping.
    Ping {
        /// Of no meaning; an answer repeats it.
        status: i32,
    },
    /// A kind that this program does not know. It is ignored.
    Unknown {
        /// The number of the kind.
        kind: i32,
        /// The status.
        status: i32,
    },
}

impl MessageKind {
    const DIRECT_CALL: i32 = 1;
    const BROADCAST: i32 = 2;
    const CONTROL: i32 = 3;
    const SHAKE_HAND: i32 = 4;
    const PING: i32 = 5;

    /// The kind with these numbers.
    pub const fn new(kind: i32, status: i32) -> Self {
        match kind {
            Self::DIRECT_CALL => Self::DirectCall { status },
            Self::BROADCAST => Self::Broadcast(BroadcastStatus::new(status)),
            Self::CONTROL => Self::Control(ControlStatus::new(status)),
            Self::SHAKE_HAND => Self::ShakeHand { status },
            Self::PING => Self::Ping { status },
            _ => Self::Unknown { kind, status },
        }
    }

    /// The numbers of kind and status. A status of 0 without meaning is not written.
    pub(crate) const fn numbers(self) -> (i32, Option<i32>) {
        match self {
            Self::DirectCall { status } => (Self::DIRECT_CALL, written(status)),
            Self::Broadcast(status) => (Self::BROADCAST, Some(status.number())),
            Self::Control(status) => (Self::CONTROL, Some(status.number())),
            Self::ShakeHand { status } => (Self::SHAKE_HAND, written(status)),
            Self::Ping { status } => (Self::PING, written(status)),
            Self::Unknown { kind, status } => (kind, written(status)),
        }
    }
}

const fn written(status: i32) -> Option<i32> {
    if status == 0 { None } else { Some(status) }
}

/// Declares an enum of statuses with their numbers. Other numbers are `Other`.
macro_rules! statuses {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
            /// Another number.
            Other(i32),
        }

        impl $name {
            /// The status with this number.
            pub const fn new(number: i32) -> Self {
                match number {
                    $($number => Self::$variant,)+
                    other => Self::Other(other),
                }
            }

            /// The number of the status.
            pub const fn number(self) -> i32 {
                match self {
                    $(Self::$variant => $number,)+
                    Self::Other(other) => other,
                }
            }
        }
    };
}

statuses! {
    /// The sort of a broadcast.
    BroadcastStatus {
        /// A new block.
        NewBlock = 0,
        /// A request for blocks, to one SCS.
        SyncRequest = 1,
        /// The answer to a request for blocks, to one SCS.
        SyncComplete = 2,
        /// Shares of a random number.
        RandomShares = 3,
        /// Shares of a signature.
        SignatureShares = 4,
        /// A request for shares.
        SharesRequest = 5,
        /// A new proposal for a flush.
        NewProposal = 6,
    }
}

statuses! {
    /// The sort of a notice: what a contract tells the SCSs through 0x0d.
    ControlStatus {
        /// A chain takes SCSs.
        RegisterOpen = 0,
        /// A chain has its SCSs and starts.
        RegisterClose = 1,
        /// A proposal for a flush was made.
        CreateProposal = 2,
        /// A proposal was disputed.
        Dispute = 3,
        /// A proposal was approved.
        Approve = 4,
        /// A chain takes more SCSs.
        RegisterAdd = 5,
        /// A chain takes a monitor.
        RegisterAsMonitor = 6,
        /// A chain takes an SCS in reserve.
        RegisterAsBackup = 7,
        /// The last flush has moved.
        UpdateLastFlush = 8,
        /// A flush pays out.
        Distribute = 9,
        /// A chain was reset.
        Reset = 10,
        /// Data of withdrawals were uploaded.
        UploadRedeem = 11,
        /// Deposits and withdrawals were made.
        EnterAndRedeem = 12,
        /// SCSs were released.
        Release = 13,
    }
}

impl ControlStatus {
    /// Whether the notice may change roles, so that known roles are read again.
    pub(crate) const fn changes_roles(self) -> bool {
        matches!(
            self,
            Self::RegisterOpen
                | Self::RegisterClose
                | Self::Approve
                | Self::RegisterAdd
                | Self::RegisterAsMonitor
                | Self::RegisterAsBackup
        )
    }

    /// The status in the input of 0x0d: its last 32 bytes as a number, of which the lowest 31 bits
    /// count. A shorter input is read as if zeros stood before it.
    pub(crate) fn from_notice(input: &[u8]) -> Self {
        let mut low = [0; 4];
        let tail = &input[input.len().saturating_sub(4)..];
        low[4 - tail.len()..].copy_from_slice(tail);
        Self::new(i32::from_be_bytes(low) & i32::MAX)
    }
}
