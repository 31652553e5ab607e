//! The texts of a list: its URL, its root, and its entries. Source: EIP-1459.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use data_encoding::BASE32_NOPAD;
use primitives::{B512, compress_public_key, expand_public_key, keccak256};

use crate::enr::{NodeRecord, NodeRecordError, is_signed_by};

const URL_PREFIX: &str = "enrtree://";
const ROOT_PREFIX: &str = "enrtree-root:v1 ";
const BRANCH_PREFIX: &str = "enrtree-branch:";
const RECORD_PREFIX: &str = "enr:";
/// The most bytes of a text. A record has at most 404, and a branch must fit into a DNS packet.
const TEXT_BYTES_MAX: usize = 2048;
/// The most entries of a branch.
const BRANCH_ENTRIES_MAX: usize = 64;
/// The most characters of a domain.
const DOMAIN_CHARS_MAX: usize = 200;
/// The number of bytes of a hash that a name may have.
const HASH_BYTES: std::ops::RangeInclusive<usize> = 12..=32;
/// The text of an error shows this many characters.
const SHOWN_CHARS_MAX: usize = 80;

/// A fault of a text that is no entry or list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DnsEntryError {
    /// The URL of a list has another form.
    #[error("list of nodes: got {0:?}, expected enrtree://KEY@DOMAIN")]
    Url(String),
    /// The key in the URL of a list is not a public key.
    #[error("list of nodes: key: got {0:?}, expected a public key in base32")]
    Key(String),
    /// The text is too long.
    #[error("got a text of {got} bytes, expected at most {TEXT_BYTES_MAX}")]
    Size {
        /// The length of the text.
        got: usize,
    },
    /// The text is not a root.
    #[error("root: got {0:?}, expected enrtree-root:v1 e=HASH l=HASH seq=NUMBER sig=SIGNATURE")]
    Root(String),
    /// The root's signature is not that of the list's key.
    #[error("root: the signature is not that of the key in the list's URL")]
    Signature,
    /// The text is of no known kind.
    #[error("entry: got {0:?}, expected enrtree-branch:, enrtree:// or enr:")]
    Kind(String),
    /// A hash has another form.
    #[error("entry: hash: got {0:?}, expected 12 to 32 bytes in base32")]
    Hash(String),
    /// A branch has too many entries.
    #[error("branch: got {got} entries, expected at most {BRANCH_ENTRIES_MAX}")]
    Branch {
        /// The number of entries.
        got: usize,
    },
    /// A node record is not right.
    #[error(transparent)]
    Record(#[from] NodeRecordError),
}

/// The beginning of a text, for an error.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

/// The domain of a list, and the key that signs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsListUrl {
    key: B512,
    domain: String,
}

impl DnsListUrl {
    /// A list below `domain` that is signed by `key`.
    ///
    /// # Errors
    /// [`DnsEntryError::Url`] if the domain has characters that no domain has, or is too long.
    pub fn new(key: B512, domain: &str) -> Result<Self, DnsEntryError> {
        let is_label = |label: &str| {
            let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            (1..=63).contains(&label.len()) && label.bytes().all(is_good)
        };
        let domain = domain.strip_suffix('.').unwrap_or(domain);
        if domain.len() > DOMAIN_CHARS_MAX || !domain.split('.').all(is_label) {
            return Err(DnsEntryError::Url(shown(domain)));
        }
        Ok(Self {
            key,
            domain: domain.to_owned(),
        })
    }

    /// The public key that signs the root.
    pub const fn key(&self) -> B512 {
        self.key
    }

    /// The name of the root.
    pub fn domain(&self) -> &str {
        &self.domain
    }
}

impl fmt::Display for DnsListUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key came from 33 bytes, or the constructor's caller has one on the curve.
        let key = compress_public_key(&self.key).map(|key| BASE32_NOPAD.encode(&key[..]));
        write!(f, "{URL_PREFIX}{}@{}", key.unwrap_or_default(), self.domain)
    }
}

impl FromStr for DnsListUrl {
    type Err = DnsEntryError;

    fn from_str(text: &str) -> Result<Self, DnsEntryError> {
        let rest = text.strip_prefix(URL_PREFIX);
        let (key, domain) = rest
            .and_then(|rest| rest.split_once('@'))
            .ok_or_else(|| DnsEntryError::Url(shown(text)))?;
        let bytes = BASE32_NOPAD.decode(key.as_bytes()).ok();
        let key = bytes
            .and_then(|bytes| expand_public_key(&<[u8; 33]>::try_from(bytes).ok()?).ok())
            .ok_or_else(|| DnsEntryError::Key(shown(key)))?;
        Self::new(key, domain)
    }
}

/// The name of an entry: the first bytes of the Keccak-256 hash of its text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryHash(Vec<u8>);

impl EntryHash {
    /// Reads the name of an entry.
    pub(super) fn parse(text: &str) -> Result<Self, DnsEntryError> {
        let bytes = BASE32_NOPAD.decode(text.as_bytes()).ok();
        let bytes = bytes.filter(|bytes| HASH_BYTES.contains(&bytes.len()));
        bytes.map(Self).ok_or_else(|| DnsEntryError::Hash(shown(text)))
    }

    /// The label of its domain.
    pub(super) fn label(&self) -> String {
        BASE32_NOPAD.encode(&self.0)
    }

    /// Whether the entry with this name has this text.
    pub(super) fn names(&self, text: &str) -> bool {
        keccak256(text).starts_with(&self.0)
    }
}

/// The root of a list, with a good signature. Its links to other lists are not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListRoot {
    /// The first entry of the tree of nodes.
    pub(super) nodes: EntryHash,
    /// A number that rises with each change of the list.
    pub(super) sequence: u64,
}

impl ListRoot {
    /// Whether the text claims to be a root. Other texts may have the same name.
    pub(super) fn is_root(text: &str) -> bool {
        text.starts_with(ROOT_PREFIX)
    }

    /// Reads a root and checks its signature.
    pub(super) fn parse(text: &str, key: &B512) -> Result<Self, DnsEntryError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(DnsEntryError::Size { got: text.len() });
        }
        let form = || DnsEntryError::Root(shown(text));
        let rest = text.strip_prefix(ROOT_PREFIX).ok_or_else(form)?;
        let mut fields = rest.split(' ');
        let mut field = |name: &str| fields.next()?.strip_prefix(name);
        let (Some(nodes), Some(links), Some(sequence), Some(signature)) =
            (field("e="), field("l="), field("seq="), field("sig="))
        else {
            return Err(form());
        };
        if fields.next().is_some() {
            return Err(form());
        }
        EntryHash::parse(links)?;
        let root = Self {
            nodes: EntryHash::parse(nodes)?,
            sequence: sequence.parse().map_err(|_| form())?,
        };
        let signed = text.rfind(" sig=").map(|end| &text[..end]).ok_or_else(form)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| form())?;
        // The last byte helps to find the key, which is known here.
        let signature: [u8; 65] = signature.try_into().map_err(|_| form())?;
        let signature = signature.first_chunk().ok_or_else(form)?;
        if is_signed_by(&keccak256(signed), signature, key) {
            Ok(root)
        } else {
            Err(DnsEntryError::Signature)
        }
    }
}

/// An entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListEntry {
    /// Names of other entries.
    Branch(Vec<EntryHash>),
    /// Another list.
    Link,
    /// A node.
    Node(Box<NodeRecord>),
}

impl ListEntry {
    /// Reads an entry.
    pub(super) fn parse(text: &str) -> Result<Self, DnsEntryError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(DnsEntryError::Size { got: text.len() });
        }
        if let Some(names) = text.strip_prefix(BRANCH_PREFIX) {
            let names = names.split(',').filter(|name| !name.is_empty());
            let got = names.clone().count();
            if got > BRANCH_ENTRIES_MAX {
                return Err(DnsEntryError::Branch { got });
            }
            names
                .map(EntryHash::parse)
                .collect::<Result<_, _>>()
                .map(Self::Branch)
        } else if text.starts_with(URL_PREFIX) {
            Ok(Self::Link)
        } else if text.starts_with(RECORD_PREFIX) {
            Ok(Self::Node(Box::new(text.parse()?)))
        } else {
            Err(DnsEntryError::Kind(shown(text)))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The example in EIP-1459, and the key that its root was signed with.
    const URL: &str = "enrtree://AKPYQIUQIL7PSIACI32J7FGZW56E5FKHEFCCOFHILBIMW3M6LWXS2@nodes.example.org";
    const ROOT: &str = "enrtree-root:v1 e=JWXYDBPXYWG6FX3GMDIBFA6CJ4 l=C7HRFPF3BLGF3YR4DY5KX3SMBE seq=1 sig=o908WmNp7LibOfPsr4btQwatZJ5URBr2ZAuxvK4UWHlsB9sUOTJQaGAlLPVAhM__XJesCHxLISo94z5Z2a463gA";
    const BRANCH: &str =
        "enrtree-branch:2XS2367YHAXJFGLZHVAWLQD4ZY,H4FHT4B454P6UXFD7JCYQ5PWDY,MHTDO6TMUBRIA2XWG5LUDACK24";
    const RECORD: &str = "enr:-HW4QOFzoVLaFJnNhbgMoDXPnOvcdVuj7pDpqRvh6BRDO68aVi5ZcjB3vzQRZH2IcLBGHzo8uUN3snqmgTiE56CH3AMBgmlkgnY0iXNlY3AyNTZrMaECC2_24YYkYHEgdzxlSNKQEnHhuNAbNlMlWJxrJxbAFvA";

    #[test]
    fn the_published_tree() {
        let url: DnsListUrl = URL.parse().expect("the example");
        assert_eq!(url.domain(), "nodes.example.org");
        assert_eq!(url.to_string(), URL);
        assert_eq!(
            DnsListUrl::new(url.key(), "nodes.example.org.").as_ref(),
            Ok(&url)
        );
        let root = ListRoot::parse(ROOT, &url.key()).expect("a signed root");
        assert_eq!(root.sequence, 1);
        assert_eq!(root.nodes.label(), "JWXYDBPXYWG6FX3GMDIBFA6CJ4");
        assert!(root.nodes.names(BRANCH));
        assert!(!root.nodes.names(RECORD));
        let Ok(ListEntry::Branch(names)) = ListEntry::parse(BRANCH) else {
            panic!("a branch");
        };
        assert_eq!(names.len(), 3);
        assert!(names[0].names(RECORD));
        assert!(matches!(ListEntry::parse(RECORD), Ok(ListEntry::Node(_))));
        assert_eq!(ListEntry::parse(URL), Ok(ListEntry::Link));
        assert_eq!(ListEntry::parse(BRANCH_PREFIX), Ok(ListEntry::Branch(Vec::new())));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let url: DnsListUrl = URL.parse().expect("the example");
        let check = |error: DnsEntryError, expected: &str| {
            let error = error.to_string();
            assert!(error.contains(expected), "{error}");
        };
        let root = |text: &str| ListRoot::parse(text, &url.key()).expect_err("not a root");
        check(root(&ROOT.replace("seq=1", "seq=2")), "signature is not");
        check(
            root(&ROOT.replace("e=J", "e=K")),
            "signature is not that of the key",
        );
        check(root(&ROOT.replace("v1", "v2")), "expected enrtree-root:v1");
        check(root(&ROOT.replace("seq=1", "seq=-1")), "expected enrtree-root:v1");
        check(root(&ROOT.replace(" l=C7H", " l=c7h")), "expected 12 to 32 bytes");
        check(root(&ROOT[..ROOT.len() - 1]), "expected enrtree-root:v1");
        check(root(&format!("{ROOT} more=1")), "expected enrtree-root:v1");
        check(root(&"x".repeat(3000)), "got a text of 3000 bytes");
        let other = ListRoot::parse(ROOT, &B512::repeat_byte(1));
        assert_eq!(other, Err(DnsEntryError::Signature));
        let entry = |text: &str| ListEntry::parse(text).expect_err("not an entry");
        check(entry("hello"), "got \"hello\", expected enrtree-branch:");
        check(entry("enrtree-branch:AAAA"), "got \"AAAA\", expected 12 to 32");
        let many = vec!["2XS2367YHAXJFGLZHVAWLQD4ZY"; 65].join(",");
        check(entry(&format!("{BRANCH_PREFIX}{many}")), "got 65 entries");
        check(entry("enr:AAAA"), "node record");
        for text in [
            "enrtree://nodes.example.org",
            "http://x",
            &URL.replace("nodes.", "nodes.."),
            &URL.replace("nodes", "no des"),
            &format!("{URL}{}", ".a".repeat(100)),
        ] {
            assert!(matches!(text.parse::<DnsListUrl>(), Err(DnsEntryError::Url(_))));
        }
        let key = "enrtree://AM5FCQ@nodes.example.org".parse::<DnsListUrl>();
        assert_eq!(key, Err(DnsEntryError::Key("AM5FCQ".to_owned())));
    }

    proptest! {
        #[test]
        fn any_text_is_judged(text in any::<String>(), end in any::<prop::sample::Index>()) {
            let url: DnsListUrl = URL.parse().expect("the example");
            for text in [text.clone(), format!("{ROOT_PREFIX}{text}"), format!("{BRANCH_PREFIX}{text}"), format!("{RECORD_PREFIX}{text}")] {
                let _ = ListEntry::parse(&text);
                prop_assert!(ListRoot::parse(&text, &url.key()).is_err());
            }
            let cut = &ROOT[..end.index(ROOT.len())];
            prop_assert!(ListRoot::parse(cut, &url.key()).is_err());
        }
    }
}
