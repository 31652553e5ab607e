//! The way through one list: which name to ask for next, and what an answer means.
//!
//! Entries are asked for in a random order, a few at a time, so that not all nodes of the world
//! dial the same ones. Everything is bounded: the depth, the entries of one walk, and how much may
//! be wrong before the list is left alone until its root is read again.

use std::collections::BTreeSet;
use std::time::Duration;

use super::entry::{DnsEntryError, DnsListUrl, EntryHash, ListEntry, ListRoot, shown};
use crate::enr::NodeRecord;
use crate::entropy::Entropy;

/// A root counts for this long.
pub const DNS_ROOT_INTERVAL: Duration = Duration::from_secs(30 * 60);
/// The greatest depth of a tree. Trees of 13 entries a branch have a million nodes at depth 5.
pub const DNS_DEPTH_MAX: usize = 8;
/// The most entries that are asked for between two roots.
pub const DNS_ENTRIES_MAX: usize = 4096;
/// A root is not asked for after a failure for this long; twice as long after each further one.
const ROOT_RETRY: Duration = Duration::from_secs(10);
/// An entry that gives no answer is asked for this many times.
const ENTRY_TRIES_MAX: u32 = 3;
/// The number of entries that may be wrong before the list is left alone.
const WRONG_MAX: usize = 16;

/// The reason why an answer brings nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DnsWalkError {
    /// The text is not what it should be.
    #[error(transparent)]
    Entry(#[from] DnsEntryError),
    /// No text has the hash that the name demands.
    #[error("entry {name}: got {got:?}, expected a text with this hash")]
    Hash {
        /// The label of the entry.
        name: String,
        /// The beginning of the first text.
        got: String,
    },
    /// The name has no root.
    #[error("root: got {got} texts, expected one that begins with enrtree-root:v1")]
    NoRoot {
        /// The number of other texts.
        got: usize,
    },
    /// The root is older than one that was seen.
    #[error("root: got number {got}, expected at least {expected}")]
    OldRoot {
        /// The sequence number of the root.
        got: u64,
        /// The newest number.
        expected: u64,
    },
    /// A link stands where nodes should be.
    #[error("entry {name}: got a link to another list, expected a branch or a node")]
    Link {
        /// The label of the entry.
        name: String,
    },
    /// The tree is too deep.
    #[error("entry {name}: got a branch at depth {DNS_DEPTH_MAX}, expected nodes")]
    Depth {
        /// The label of the entry.
        name: String,
    },
    /// The tree has too many entries.
    #[error("got a list of more than {DNS_ENTRIES_MAX} entries, expected fewer")]
    Entries,
    /// Nobody answers.
    #[error("no answer: {0}")]
    Lookup(#[from] DnsLookupError),
}

/// The reason why a name has no texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DnsLookupError {
    /// No server has answered in time.
    #[error("got none within {} s", .0.as_secs())]
    Late(Duration),
    /// The resolver's error.
    #[error("{0}")]
    Resolver(String),
}

/// The result of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsFound {
    /// A new root, or more names.
    Names,
    /// A node with a good signature.
    Node(Box<NodeRecord>),
}

/// An entry that is not read yet.
#[derive(Clone, Debug)]
struct OpenEntry {
    hash: EntryHash,
    depth: usize,
    tries: u32,
}

#[derive(Clone, Debug)]
enum AskedName {
    Root,
    Entry(OpenEntry),
}

/// A list and how far it is read.
#[derive(Clone, Debug)]
pub struct DnsListWalk {
    url: DnsListUrl,
    root: Option<ListRoot>,
    root_due: Duration,
    root_failures: u32,
    open: Vec<OpenEntry>,
    /// Entries that were asked for or are open. No entry is read twice in one walk.
    seen: BTreeSet<EntryHash>,
    wrong: usize,
    asked: Option<AskedName>,
}

impl DnsListWalk {
    /// A list of which nothing is read.
    pub const fn new(url: DnsListUrl) -> Self {
        Self {
            url,
            root: None,
            root_due: Duration::ZERO,
            root_failures: 0,
            open: Vec::new(),
            seen: BTreeSet::new(),
            wrong: 0,
            asked: None,
        }
    }

    /// The list.
    pub const fn url(&self) -> &DnsListUrl {
        &self.url
    }

    /// The name to ask for now. [`Self::answer`] must follow. `None` if there is nothing to ask for
    /// until the root is due again.
    pub fn next_name(&mut self, now: Duration, entropy: &mut Entropy) -> Option<String> {
        if now >= self.root_due {
            self.asked = Some(AskedName::Root);
            return Some(self.url.domain().to_owned());
        }
        if self.open.is_empty() {
            return None;
        }
        let entry = self.open.swap_remove(entropy.below(self.open.len()));
        let name = format!("{}.{}", entry.hash.label(), self.url.domain());
        self.asked = Some(AskedName::Entry(entry));
        Some(name)
    }

    /// Takes the texts of the name that [`Self::next_name`] gave, or why there are none.
    ///
    /// # Errors
    /// [`DnsWalkError`] if the answer brings nothing. The walk goes on all the same.
    pub fn answer(
        &mut self,
        texts: Result<Vec<String>, DnsLookupError>,
        now: Duration,
    ) -> Result<DnsFound, DnsWalkError> {
        match self.asked.take() {
            Some(AskedName::Entry(entry)) => self.entry(entry, texts),
            // An answer to nothing counts as one to the root, which is always checked.
            Some(AskedName::Root) | None => self.root(texts, now),
        }
    }

    fn root(
        &mut self,
        texts: Result<Vec<String>, DnsLookupError>,
        now: Duration,
    ) -> Result<DnsFound, DnsWalkError> {
        match self.read_root(texts) {
            Ok(root) => {
                let is_new = self.root.as_ref() != Some(&root);
                if is_new || self.open.is_empty() {
                    self.seen = BTreeSet::from([root.nodes.clone()]);
                    self.open = vec![OpenEntry {
                        hash: root.nodes.clone(),
                        depth: 0,
                        tries: 0,
                    }];
                    self.wrong = 0;
                }
                self.root = Some(root);
                self.root_failures = 0;
                self.root_due = now + DNS_ROOT_INTERVAL;
                Ok(DnsFound::Names)
            }
            Err(error) => {
                let wait = ROOT_RETRY.saturating_mul(1 << self.root_failures.min(16));
                self.root_failures = self.root_failures.saturating_add(1);
                self.root_due = now + wait.min(DNS_ROOT_INTERVAL);
                Err(error)
            }
        }
    }

    fn read_root(&self, texts: Result<Vec<String>, DnsLookupError>) -> Result<ListRoot, DnsWalkError> {
        let texts = texts?;
        let text = texts.iter().find(|text| ListRoot::is_root(text));
        let text = text.ok_or(DnsWalkError::NoRoot { got: texts.len() })?;
        let root = ListRoot::parse(text, &self.url.key())?;
        match &self.root {
            Some(before) if root.sequence < before.sequence => Err(DnsWalkError::OldRoot {
                got: root.sequence,
                expected: before.sequence,
            }),
            _ => Ok(root),
        }
    }

    fn entry(
        &mut self,
        mut entry: OpenEntry,
        texts: Result<Vec<String>, DnsLookupError>,
    ) -> Result<DnsFound, DnsWalkError> {
        let texts = match texts {
            Ok(texts) => texts,
            Err(error) => {
                entry.tries += 1;
                if entry.tries < ENTRY_TRIES_MAX {
                    self.open.push(entry);
                }
                return Err(DnsWalkError::Lookup(error));
            }
        };
        let found = self.read_entry(&entry, &texts);
        if found.is_err() {
            self.wrong += 1;
            if self.wrong >= WRONG_MAX {
                self.open.clear();
            }
        }
        found
    }

    fn read_entry(&mut self, entry: &OpenEntry, texts: &[String]) -> Result<DnsFound, DnsWalkError> {
        let name = || entry.hash.label();
        let Some(text) = texts.iter().find(|text| entry.hash.names(text)) else {
            return Err(DnsWalkError::Hash {
                name: name(),
                got: texts.first().map(|text| shown(text)).unwrap_or_default(),
            });
        };
        match ListEntry::parse(text)? {
            ListEntry::Node(record) => Ok(DnsFound::Node(record)),
            ListEntry::Link => Err(DnsWalkError::Link { name: name() }),
            ListEntry::Branch(_) if entry.depth >= DNS_DEPTH_MAX => Err(DnsWalkError::Depth { name: name() }),
            ListEntry::Branch(names) => {
                for hash in names {
                    if self.seen.contains(&hash) {
                        continue;
                    }
                    if self.seen.len() >= DNS_ENTRIES_MAX {
                        return Err(DnsWalkError::Entries);
                    }
                    self.seen.insert(hash.clone());
                    self.open.push(OpenEntry {
                        hash,
                        depth: entry.depth + 1,
                        tries: 0,
                    });
                }
                Ok(DnsFound::Names)
            }
        }
    }
}
