//! The messages between SCSs (docs/microchain-design.md, 7).

/// A sync request, to one receiver.
pub const SYNC_REQUEST: i32 = 1;
/// The answer to a sync request, to one receiver.
pub const SYNC_ANSWER: i32 = 2;
/// A block.
pub const BLOCK: i32 = 64;
/// The head of a member.
pub const STATE: i32 = 65;
/// Transactions that wait.
pub const TRANSACTIONS: i32 = 66;
/// Proof that a member broke the rules.
pub const EVIDENCE: i32 = 67;
/// All statuses that the engine reads.
pub const STATUSES: [i32; 6] = [SYNC_REQUEST, SYNC_ANSWER, BLOCK, STATE, TRANSACTIONS, EVIDENCE];
