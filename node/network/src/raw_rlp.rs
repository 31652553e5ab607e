//! A value that is RLP already, as a field of a list.

use alloy_rlp::BufMut;
use primitives::Encodable;

/// RLP that is written as it is.
pub(crate) struct RawRlp<'a>(pub(crate) &'a [u8]);

impl Encodable for RawRlp<'_> {
    fn encode(&self, out: &mut dyn BufMut) {
        out.put_slice(self.0);
    }

    fn length(&self) -> usize {
        self.0.len()
    }
}
