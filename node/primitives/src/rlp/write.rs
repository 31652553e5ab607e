//! Writes a list of typed fields into one buffer.
//!
//! The length of a list is written before its fields. So the length of each field is computed
//! first, and then each field is written once.

use alloy_rlp::{BufMut, Encodable, Header};

/// Writes `fields` as one list.
pub fn encode_fields(fields: &[&dyn Encodable], out: &mut dyn BufMut) {
    Header {
        list: true,
        payload_length: payload_length(fields),
    }
    .encode(out);
    for field in fields {
        field.encode(out);
    }
}

/// The RLP of `fields` as one list.
pub fn encode_fields_to_vec(fields: &[&dyn Encodable]) -> Vec<u8> {
    let mut out = Vec::with_capacity(fields_length(fields));
    encode_fields(fields, &mut out);
    out
}

/// Number of bytes that [`encode_fields`] writes.
pub fn fields_length(fields: &[&dyn Encodable]) -> usize {
    Header {
        list: true,
        payload_length: payload_length(fields),
    }
    .length_with_payload()
}

fn payload_length(fields: &[&dyn Encodable]) -> usize {
    fields.iter().map(|field| field.length()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_a_list() {
        let fields: [&dyn Encodable; 3] = [&0u64, &"dog", &1024u64];
        let expected = [0xc8, 0x80, 0x83, b'd', b'o', b'g', 0x82, 4, 0];
        assert_eq!(encode_fields_to_vec(&fields), expected);
        assert_eq!(fields_length(&fields), expected.len());
    }
}
