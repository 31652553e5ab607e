//! Answers the requests of peers, within the limits of docs/p2p.md, 3.
//!
//! An answer may be shorter than what was asked for: it ends with the entry that makes it longer
//! than `ANSWER_BYTES`, and leaves out what is not known. Knows the chain through
//! [`ChainAccess`] only.

use alloy_rlp::Encodable;
use primitives::{B256, Header, Receipt};

use super::chain_access::{ChainAccess, ChainAccessError, ChainReader};
use crate::messages::{HeadersRequest, HeadersStart, PeerMessage, WireFamily};

/// An answer ends with the entry that makes it longer than this.
pub(crate) const ANSWER_BYTES: usize = 2 << 20;
const HEADER_BYTES: usize = 500;
/// The parents of a side block are followed so far below the canonical chain.
const SIDE_STEPS_MAX: u64 = 100;
/// Transactions in one answer.
const POOLED_MAX: usize = 256;

/// The most entries of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeLimits {
    /// Headers.
    pub headers: usize,
    /// Bodies.
    pub bodies: usize,
    /// Blocks whose receipts are sent.
    pub receipts: usize,
    /// State nodes.
    pub state: usize,
}

impl ServeLimits {
    /// The limits of a family's nodes.
    pub const fn of(family: WireFamily) -> Self {
        match family {
            WireFamily::Mc => Self {
                headers: 192,
                bodies: 128,
                receipts: 256,
                state: 384,
            },
            WireFamily::Eth => Self {
                headers: 1024,
                bodies: 1024,
                receipts: 1024,
                state: 1024,
            },
        }
    }
}

impl ServeLimits {
    /// Cuts off the hashes of a request that [`answer`] would not look at, so that a request that
    /// waits takes little memory.
    pub fn cut(self, request: &mut PeerMessage) {
        let (hashes, most) = match request {
            PeerMessage::GetBlockBodies(_, hashes) => (hashes, self.bodies),
            PeerMessage::GetReceipts(_, hashes) => (hashes, self.receipts),
            PeerMessage::GetNodeData(_, hashes) => (hashes, self.state),
            PeerMessage::GetPooledTransactions(_, hashes) => (hashes, POOLED_MAX),
            PeerMessage::Snap(request) => return super::snap_serve::cut(request),
            _ => return,
        };
        hashes.truncate(looked_at(most));
        hashes.shrink_to_fit();
    }
}

/// The number of hashes of a request that are looked at if `most` are answered. Hashes that are not
/// known cost a look-up each, so their number is bounded, too.
const fn looked_at(most: usize) -> usize {
    most.saturating_mul(2)
}

/// The answer to `request`, but for those of `snap/1`. `None` if the message is no request.
///
/// # Errors
/// [`ChainAccessError`] if the chain cannot be read.
pub fn answer(
    chain: &dyn ChainAccess,
    limits: ServeLimits,
    request: &PeerMessage,
) -> Result<Option<PeerMessage>, ChainAccessError> {
    Ok(Some(match request {
        PeerMessage::GetBlockHeaders(id, request) => {
            PeerMessage::BlockHeaders(*id, headers(&*chain.reader()?, limits, request)?)
        }
        PeerMessage::GetBlockBodies(id, hashes) => {
            let reader = chain.reader()?;
            let read = |hash: &B256| {
                let body = reader.body(hash)?;
                Ok(body.map(|body| {
                    let bytes = body.transactions.iter().map(Encodable::length);
                    let bytes = bytes.sum::<usize>() + body.uncles.len() * HEADER_BYTES;
                    (body, bytes)
                }))
            };
            PeerMessage::BlockBodies(*id, collect(hashes, limits.bodies, read)?)
        }
        PeerMessage::GetReceipts(id, hashes) => {
            let reader = chain.reader()?;
            let read = |hash: &B256| {
                let receipts = reader.receipts(hash)?;
                Ok(receipts.map(|receipts| {
                    let bytes = receipts.iter().map(receipt_bytes).sum();
                    (receipts, bytes)
                }))
            };
            PeerMessage::Receipts(*id, collect(hashes, limits.receipts, read)?)
        }
        PeerMessage::GetNodeData(id, hashes) => {
            let reader = chain.reader()?;
            let read = |hash: &B256| {
                let code = reader.code(hash)?;
                Ok(code.map(|code| {
                    let bytes = code.len();
                    (code, bytes)
                }))
            };
            PeerMessage::NodeData(*id, collect(hashes, limits.state, read)?)
        }
        PeerMessage::GetPooledTransactions(id, hashes) => {
            let read = |hash: &B256| {
                let transaction = chain.pooled(hash);
                Ok(transaction.map(|transaction| {
                    let bytes = transaction.length();
                    (transaction, bytes)
                }))
            };
            PeerMessage::PooledTransactions(*id, collect(hashes, POOLED_MAX, read)?)
        }
        _ => return Ok(None),
    }))
}

/// About how many bytes a receipt has.
fn receipt_bytes(receipt: &Receipt) -> usize {
    const BLOOM_AND_NUMBERS: usize = 300;
    const ADDRESS_AND_PREFIXES: usize = 32;
    let log = |log: &primitives::Log| ADDRESS_AND_PREFIXES + log.topics.len() * 32 + log.data.len();
    BLOOM_AND_NUMBERS + receipt.logs.iter().map(log).sum::<usize>()
}

/// Returns the finds of `read` for the hashes, with their bytes.
fn collect<T>(
    hashes: &[B256],
    most: usize,
    read: impl Fn(&B256) -> Result<Option<(T, usize)>, ChainAccessError>,
) -> Result<Vec<T>, ChainAccessError> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    for hash in hashes.iter().take(looked_at(most)) {
        if bytes >= ANSWER_BYTES || found.len() >= most {
            break;
        }
        if let Some((entry, length)) = read(hash)? {
            found.push(entry);
            bytes += length;
        }
    }
    Ok(found)
}

/// The headers that are asked for. The list ends before a block that is not known.
fn headers(
    reader: &dyn ChainReader,
    limits: ServeLimits,
    request: &HeadersRequest,
) -> Result<Vec<Header>, ChainAccessError> {
    let most = request.amount.min(limits.headers as u64) as usize;
    let first = match request.start {
        HeadersStart::Hash(hash) => reader.header(&hash)?.map(|header| (hash, header)),
        HeadersStart::Number(number) => canonical(reader, number)?,
    };
    let mut found: Vec<Header> = Vec::new();
    let mut next = first;
    // The number after `skip` blocks may not exist.
    let step = request.skip.checked_add(1);
    while let Some((hash, header)) = next.take()
        && found.len() < most
        && found.len() * HEADER_BYTES < ANSWER_BYTES
    {
        let number = header.number;
        let parent = header.parent_hash;
        found.push(header);
        let Some(step) = step else { break };
        let is_canonical = reader.canonical_hash(number)? == Some(hash);
        next = match (request.reverse, is_canonical) {
            (false, true) => match number.checked_add(step) {
                Some(number) => canonical(reader, number)?,
                None => None,
            },
            // A side block has no single child.
            (false, false) => None,
            (true, true) => match number.checked_sub(step) {
                Some(number) => canonical(reader, number)?,
                None => None,
            },
            (true, false) => ancestor(reader, parent, number, step)?,
        };
    }
    Ok(found)
}

fn canonical(reader: &dyn ChainReader, number: u64) -> Result<Option<(B256, Header)>, ChainAccessError> {
    let Some(hash) = reader.canonical_hash(number)? else {
        return Ok(None);
    };
    Ok(reader.header(&hash)?.map(|header| (hash, header)))
}

/// The block `step` below the side block `number`, whose parent is `parent`.
fn ancestor(
    reader: &dyn ChainReader,
    mut parent: B256,
    number: u64,
    step: u64,
) -> Result<Option<(B256, Header)>, ChainAccessError> {
    let Some(target) = number.checked_sub(step) else {
        return Ok(None);
    };
    for _ in 0..SIDE_STEPS_MAX {
        let Some(header) = reader.header(&parent)? else {
            return Ok(None);
        };
        if header.number == target {
            return Ok(Some((parent, header)));
        }
        if reader.canonical_hash(header.number)? == Some(parent) {
            return canonical(reader, target);
        }
        parent = header.parent_hash;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::codec::REQUESTED_HASHES_MAX;

    #[test]
    fn a_request_that_waits_takes_little_memory() {
        let all = || vec![B256::repeat_byte(7); REQUESTED_HASHES_MAX];
        for family in [WireFamily::Mc, WireFamily::Eth] {
            for mut request in [
                PeerMessage::GetBlockBodies(1, all()),
                PeerMessage::GetReceipts(1, all()),
                PeerMessage::GetNodeData(1, all()),
                PeerMessage::GetPooledTransactions(1, all()),
            ] {
                ServeLimits::of(family).cut(&mut request);
                let (PeerMessage::GetBlockBodies(_, hashes)
                | PeerMessage::GetReceipts(_, hashes)
                | PeerMessage::GetNodeData(_, hashes)
                | PeerMessage::GetPooledTransactions(_, hashes)) = &request
                else {
                    panic!("{request:?}")
                };
                assert!((256..=2048).contains(&hashes.len()), "{}", hashes.len());
                assert!(hashes.capacity() <= 2048, "{}", hashes.capacity());
            }
        }
    }
}
