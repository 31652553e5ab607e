//! Contracts whose code is known: the published ones, and ours of this release and earlier ones.
//!
//! Two contracts are the same if their code is, without the note that the compiler puts at its
//! end. The note has a hash of the source with its comments, and is never executed: the code jumps
//! to fixed places only, and stops before it. So a contract that somebody else has compiled from
//! the same source, with other comments in it, is known, too.
//!
//! A chain base or a pool is known by the code at its address, all that a VNODE tells. `DappBase`
//! is known by the code that created it, which is in a block of the MicroChain: a constructor can
//! write lists that the code at the address could not have written.

use std::sync::LazyLock;

use primitives::{B256, keccak256};

/// The table. Its head says what a line means.
const TABLE: &str = include_str!("../../../contracts/codes.txt");
/// Lengths of the notes of compilers, with the two bytes of their length: plain, with
/// `experimental`, with the version, with both.
const NOTE_LENGTHS: [usize; 4] = [43, 57, 52, 66];

/// The kind of a known contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeKind {
    /// A chain base.
    ChainBase,
    /// A pool of SCSs in which a signature covers the SCS and the chain base only.
    PlainPool,
    /// A pool of SCSs in which a signature covers the bond and the pool, too.
    AmountPool,
    /// The creation code of a `DappBase`, without arguments.
    DappBase,
}

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KnownCode {
    kind: CodeKind,
    len: usize,
    hash: B256,
}

static KNOWN: LazyLock<Vec<KnownCode>> = LazyLock::new(|| {
    let lines = TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| read_line(line).expect("a test reads the table"))
        .collect()
});

fn read_line(line: &str) -> Option<KnownCode> {
    let mut words = line.split_whitespace();
    let kind = match words.next()? {
        "chain-base" => CodeKind::ChainBase,
        "pool-plain" => CodeKind::PlainPool,
        "pool-amount" => CodeKind::AmountPool,
        "dapp-base" => CodeKind::DappBase,
        _ => return None,
    };
    Some(KnownCode {
        kind,
        len: words.next()?.parse().ok()?,
        hash: words.next()?.parse().ok()?,
    })
}

/// The bytes of the compiler's note that `bytes` begins with; `None` if it begins with none.
fn note_len(bytes: &[u8]) -> Option<usize> {
    let (count, rest) = bytes.split_first()?;
    let rest = rest.strip_prefix(b"\x65bzzr")?;
    let rest = rest.strip_prefix(b"0").or_else(|| rest.strip_prefix(b"1"))?;
    let mut rest = rest.strip_prefix(b"\x58\x20")?.get(32..)?;
    let mut entries = 1;
    if let Some(after) = rest.strip_prefix(b"\x6cexperimental\xf5") {
        (rest, entries) = (after, entries + 1);
    }
    if let Some(after) = rest.strip_prefix(b"\x64solc\x43") {
        (rest, entries) = (after.get(3..)?, entries + 1);
    }
    let len = bytes.len() - rest.len();
    let told = u16::from_be_bytes(*rest.first_chunk()?);
    (*count == 0xa0 + entries && usize::from(told) == len).then_some(len + 2)
}

/// The code without the compiler's note at its end.
fn without_note(code: &[u8]) -> &[u8] {
    let note = |len: &usize| {
        let start = code.len().checked_sub(*len)?;
        (note_len(&code[start..]) == Some(*len)).then_some(start)
    };
    let start = NOTE_LENGTHS.iter().find_map(note).unwrap_or(code.len());
    &code[..start]
}

/// The hash by which the code at an address is known: that of the code without the compiler's note.
pub fn code_hash(code: &[u8]) -> B256 {
    keccak256(without_note(code))
}

/// The line of the table for a compiled contract: length and hash as [`code_hash`] has them.
pub fn table_entry(code: &[u8]) -> (usize, B256) {
    (without_note(code).len(), code_hash(code))
}

/// The kind of the contract whose code has this [`code_hash`]; `None` if it is not known.
pub fn kind_of(hash: &B256) -> Option<CodeKind> {
    let at_address = KNOWN.iter().filter(|one| one.kind != CodeKind::DappBase);
    at_address
        .filter(|one| one.hash == *hash)
        .map(|one| one.kind)
        .next()
}

/// Whether `data` creates a known `DappBase`: its creation code, the compiler's note, and any
/// arguments.
pub fn creates_dapp_base(data: &[u8]) -> bool {
    let all = KNOWN.iter().filter(|one| one.kind == CodeKind::DappBase);
    all.into_iter().any(|one| {
        let parts = data.split_at_checked(one.len);
        parts.is_some_and(|(code, rest)| note_len(rest).is_some() && keccak256(code) == one.hash)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hex;

    /// The creation code of one of our contracts.
    fn creation(contract: &str) -> Vec<u8> {
        let all = include_str!("../../../contracts/compiled.json");
        let all: serde_json::Value = serde_json::from_str(all).expect("JSON");
        let text = all["contracts"][contract]["bytecode"].as_str().expect("code");
        hex::decode(text).expect("hexadecimal")
    }

    #[test]
    fn every_line_is_read_and_no_code_has_two_kinds() {
        let count = TABLE.lines().filter(|line| line.starts_with(char::is_alphabetic));
        assert_eq!(count.count(), KNOWN.len());
        for (index, one) in KNOWN.iter().enumerate() {
            let again = KNOWN[index + 1..].iter().any(|other| other.hash == one.hash);
            assert!(!again, "{} is there twice", one.hash);
        }
        assert_eq!(read_line("chain 1 0x00"), None);
    }

    #[test]
    fn the_note_does_not_matter_and_everything_else_does() {
        let code = creation("DappBase");
        assert!(creates_dapp_base(&code));
        assert!(creates_dapp_base(&[&code[..], &[7; 96]].concat()), "arguments");
        let mut other_source = code.clone();
        let inside_note = code.len() - 40;
        other_source[inside_note] ^= 1;
        assert!(creates_dapp_base(&other_source));
        assert_eq!(code_hash(&code), code_hash(&other_source));
        for at in [0, 100, code.len() / 2, code.len() - 58] {
            let mut changed = code.clone();
            changed[at] ^= 1;
            assert!(!creates_dapp_base(&changed), "byte {at}");
            assert_ne!(code_hash(&code), code_hash(&changed), "byte {at}");
        }
        // A note that is none is code.
        let mut no_note = code.clone();
        no_note[inside_note - 20] ^= 1;
        let cut = &code[..code.len() - 1];
        assert!(!creates_dapp_base(cut) && !creates_dapp_base(&code[..40]) && !creates_dapp_base(&[]));
        assert_eq!(without_note(cut).len(), cut.len());
        assert_eq!(without_note(&[]), [0u8; 0]);
    }

    #[test]
    fn notes_of_all_forms_are_cut() {
        let hash = [0x5a; 32];
        for (head, tail, len) in [
            (&b"\xa1\x65bzzr0\x58\x20"[..], &b"\x00\x29"[..], 43),
            (b"\xa2\x65bzzr0\x58\x20", b"\x6cexperimental\xf5\x00\x37", 57),
            (b"\xa2\x65bzzr1\x58\x20", b"\x64solc\x43\x00\x05\x11\x00\x32", 52),
            (
                b"\xa3\x65bzzr1\x58\x20",
                b"\x6cexperimental\xf5\x64solc\x43\x00\x05\x11\x00\x40",
                66,
            ),
        ] {
            let note = [head, &hash, tail].concat();
            assert_eq!((note.len(), note_len(&note)), (len, Some(len)));
            let code = [b"\x60\x80", &note[..]].concat();
            assert_eq!(without_note(&code), b"\x60\x80");
            let mut wrong = note.clone();
            wrong[len - 1] += 1;
            assert_eq!(note_len(&wrong), None);
            wrong = note.clone();
            wrong[0] += 1;
            assert_eq!(note_len(&wrong), None);
        }
    }
}
