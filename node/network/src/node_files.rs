//! The files of the data directory with nodes: those that were seen, the static ones and the
//! trusted ones.
//!
//! Each is replaced as a whole or not at all. The seen nodes only save time, so a damaged file of
//! them is a warning. The other two are the user's, so a damaged one is an error.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use primitives::Enode;

use crate::address::Neighbourhood;
use crate::contact::NodeContact;
use crate::node_text::{NodeTextError, read_node};

/// File with the seen nodes, in the data directory.
pub(crate) const SEEN_NODES_FILE: &str = "nodes";
/// File with the enode URLs of the static nodes, as a JSON list.
pub const STATIC_NODES_FILE: &str = "static-nodes.json";
/// File with the enode URLs of the trusted nodes, as a JSON list.
pub const TRUSTED_NODES_FILE: &str = "trusted-nodes.json";
/// Nodes in the file of the seen ones.
pub(crate) const SEEN_NODES_MAX: usize = 1024;
/// Nodes of one neighbourhood.
pub(crate) const SEEN_NEIGHBOURS_MAX: usize = 10;
/// Nodes in a list of the user.
pub const LISTED_NODES_MAX: usize = 1024;
/// A node that is not seen again is remembered for this long.
pub(crate) const SEEN_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// Most bytes that are read of a file.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// First line of the file of the seen nodes.
const SEEN_HEADER: &str = "nodes 1";

/// A fault of a list of nodes.
#[derive(Debug, thiserror::Error)]
pub enum NodeFileError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is too long.
    #[error("{}: got more than {bound} bytes, expected at most that many", path.display())]
    Size {
        /// The file.
        path: PathBuf,
        /// The most bytes.
        bound: u64,
    },
    /// The file is not a JSON list of strings.
    #[error("{}: got {cause}, expected a JSON list of enode URLs", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The fault.
        cause: String,
    },
    /// An entry is neither an enode URL nor the text of a node record.
    #[error("{}: entry {index}: {cause}", path.display())]
    Node {
        /// The file.
        path: PathBuf,
        /// Number of the entry, from 0.
        index: usize,
        /// The fault.
        cause: NodeTextError,
    },
    /// The list is too long.
    #[error("{}: got {got} nodes, expected at most {LISTED_NODES_MAX}", path.display())]
    TooMany {
        /// The file.
        path: PathBuf,
        /// Their number.
        got: usize,
    },
}

/// The text of a file. `None` if it does not exist.
fn read_text(path: &Path) -> Result<Option<String>, NodeFileError> {
    let failed = |source| NodeFileError::File {
        path: path.to_owned(),
        source,
    };
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed)?,
    };
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(NodeFileError::Size {
            path: path.to_owned(),
            bound: FILE_BYTES_MAX,
        });
    }
    Ok(Some(text))
}

/// Replaces a file. After an error the old one is unchanged.
fn replace(path: &Path, text: &str) -> Result<(), NodeFileError> {
    let write = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or_else(|| Path::new(".")))?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        if let Err(error) = store::sync_name(path) {
            let path = path.display();
            tracing::warn!(%path, %error, "the file is written, but a power failure may lose it");
        }
        Ok(())
    };
    write().map_err(|source| NodeFileError::File {
        path: path.to_owned(),
        source,
    })
}

/// Reads a JSON list of enode URLs and of texts of node records. A file that does not exist is an
/// empty list.
///
/// # Errors
/// [`NodeFileError`] if the file has another form.
pub fn read_enodes(path: &Path) -> Result<Vec<Enode>, NodeFileError> {
    let Some(text) = read_text(path)? else {
        return Ok(Vec::new());
    };
    let urls: Vec<String> = serde_json::from_str(&text).map_err(|error| NodeFileError::Json {
        path: path.to_owned(),
        cause: error.to_string(),
    })?;
    if urls.len() > LISTED_NODES_MAX {
        return Err(NodeFileError::TooMany {
            path: path.to_owned(),
            got: urls.len(),
        });
    }
    let parse = |(index, url): (usize, &String)| {
        read_node(url).map_err(|cause| NodeFileError::Node {
            path: path.to_owned(),
            index,
            cause,
        })
    };
    urls.iter().enumerate().map(parse).collect()
}

/// Writes a JSON list of enode URLs.
///
/// # Errors
/// [`NodeFileError`] if the list is too long, or the file cannot be written. The old file is then
/// unchanged.
pub fn write_enodes(path: &Path, nodes: &[Enode]) -> Result<(), NodeFileError> {
    if nodes.len() > LISTED_NODES_MAX {
        return Err(NodeFileError::TooMany {
            path: path.to_owned(),
            got: nodes.len(),
        });
    }
    let urls: Vec<_> = nodes.iter().map(Enode::to_string).collect();
    let text = serde_json::to_string_pretty(&urls).map_err(|error| NodeFileError::Json {
        path: path.to_owned(),
        cause: error.to_string(),
    })?;
    replace(path, &text)
}

/// A node that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenNode {
    /// The contact of the node.
    pub contact: NodeContact,
    /// The time at which it was last known to be there, in seconds since 1970.
    pub seen: u64,
}

/// The nodes that were seen. They survive restarts.
#[derive(Debug)]
pub(crate) struct SeenNodes {
    path: PathBuf,
    /// The one that was seen last is last.
    nodes: Vec<SeenNode>,
    is_changed: bool,
}

impl SeenNodes {
    /// Reads the file in the data directory `folder`. If it cannot be used, this is logged, and the
    /// list begins empty.
    pub(crate) fn open(folder: &Path, now: Duration) -> Self {
        let path = folder.join(SEEN_NODES_FILE);
        let text = read_text(&path).unwrap_or_else(|error| {
            tracing::warn!(%error, "the nodes that were seen before cannot be read, the list begins anew");
            None
        });
        let read = text.as_deref().map(parse_seen);
        let nodes = match read {
            Some(Ok(nodes)) => nodes,
            Some(Err(line)) => {
                let path = path.display();
                tracing::warn!(%path, line, "got another line than a node, the list begins anew");
                Vec::new()
            }
            None => Vec::new(),
        };
        let mut own = Self {
            path,
            nodes: Vec::new(),
            is_changed: false,
        };
        // The bounds hold for what the file has, too.
        for node in nodes {
            own.put(node);
        }
        own.forget(now);
        own
    }

    /// The nodes, the one that was seen last first.
    pub(crate) fn latest(&self) -> impl Iterator<Item = &SeenNode> {
        self.nodes.iter().rev()
    }

    /// Notes that a node is where `contact` says. If there are too many nodes, or too many of its
    /// neighbourhood, the one of them that was seen least recently is forgotten.
    pub(crate) fn saw(&mut self, contact: NodeContact, now: Duration) {
        self.put(SeenNode {
            contact,
            seen: now.as_secs(),
        });
        self.is_changed = true;
    }

    fn put(&mut self, node: SeenNode) {
        let id = node.contact.id;
        self.nodes.retain(|known| known.contact.id != id);
        let own = Neighbourhood::of_stranger(node.contact.ip);
        let is_neighbour = |known: &SeenNode| own == Some(Neighbourhood::of(known.contact.ip));
        let neighbours = self.nodes.iter().filter(|known| is_neighbour(known)).count();
        let first = match neighbours >= SEEN_NEIGHBOURS_MAX {
            true => self.nodes.iter().position(is_neighbour),
            false => (self.nodes.len() >= SEEN_NODES_MAX).then_some(0),
        };
        if let Some(first) = first {
            self.nodes.remove(first);
        }
        self.nodes.push(node);
    }

    fn forget(&mut self, now: Duration) {
        let oldest = now.saturating_sub(SEEN_LIFETIME).as_secs();
        self.nodes.retain(|node| node.seen >= oldest);
    }

    /// Writes the file if something has changed.
    ///
    /// # Errors
    /// [`NodeFileError`] if it cannot be written. The old file is then unchanged.
    pub(crate) fn save(&mut self, now: Duration) -> Result<(), NodeFileError> {
        if !self.is_changed {
            return Ok(());
        }
        self.forget(now);
        let line = |node: &SeenNode| format!("{} {}\n", node.seen, node.contact);
        let lines: String = self.nodes.iter().map(line).collect();
        replace(&self.path, &format!("{SEEN_HEADER}\n{lines}"))?;
        self.is_changed = false;
        Ok(())
    }
}

/// Reads the file of the seen nodes. An error is the number of the wrong line, from 1.
fn parse_seen(text: &str) -> Result<Vec<SeenNode>, usize> {
    let mut lines = text.lines().enumerate();
    if lines.next().map(|(_, line)| line) != Some(SEEN_HEADER) {
        return Err(1);
    }
    let parse = |line: &str| {
        let (seen, url) = line.split_once(' ')?;
        let enode: Enode = url.parse().ok()?;
        Some(SeenNode {
            contact: NodeContact::from_enode(&enode)?,
            seen: seen.parse().ok()?,
        })
    };
    lines.map(|(index, line)| parse(line).ok_or(index + 1)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::IpAddr;

    use primitives::{B512, SecretKey};

    use super::*;
    use crate::enr::{NodeClaims, NodeRecord};

    const NOW: Duration = Duration::from_secs(1_700_000_000);

    fn contact(number: u16) -> NodeContact {
        let [high, low] = number.to_be_bytes();
        let mut id = B512::repeat_byte(7);
        id[..2].copy_from_slice(&[high, low]);
        NodeContact {
            id,
            ip: IpAddr::from([50, high, low, 1]),
            udp: 30303,
            tcp: 30304,
        }
    }

    #[test]
    fn seen_nodes_survive_a_restart() {
        let home = tempfile::tempdir().expect("a folder");
        let mut nodes = SeenNodes::open(home.path(), NOW);
        assert_eq!(nodes.latest().count(), 0);
        for number in 0..5 {
            nodes.saw(contact(number), NOW + Duration::from_secs(number.into()));
        }
        nodes.saw(contact(0), NOW + Duration::from_secs(9));
        nodes.save(NOW).expect("written");
        let again = SeenNodes::open(home.path(), NOW);
        let order: Vec<_> = again.latest().map(|node| node.contact).collect();
        assert_eq!(order, [0, 4, 3, 2, 1].map(contact));
        let later = SeenNodes::open(home.path(), NOW + SEEN_LIFETIME + Duration::from_secs(4));
        assert_eq!(later.latest().count(), 2, "the others are too old");
    }

    #[test]
    fn the_list_is_bounded() {
        let home = tempfile::tempdir().expect("a folder");
        let mut nodes = SeenNodes::open(home.path(), NOW);
        for number in 0..=SEEN_NODES_MAX as u16 {
            nodes.saw(contact(number), NOW);
        }
        assert_eq!(nodes.latest().count(), SEEN_NODES_MAX);
        assert!(nodes.latest().all(|node| node.contact != contact(0)));
        nodes.save(NOW).expect("written");
        let again = SeenNodes::open(home.path(), NOW);
        assert_eq!(again.latest().count(), SEEN_NODES_MAX);
    }

    /// A node of the one neighbourhood that an attacker has.
    fn neighbour(number: u16) -> NodeContact {
        NodeContact {
            ip: IpAddr::from([60, 0, 0, number as u8]),
            ..contact(number)
        }
    }

    #[test]
    fn a_neighbourhood_has_a_share_in_the_list_and_in_the_file() {
        let home = tempfile::tempdir().expect("a folder");
        let mut nodes = SeenNodes::open(home.path(), NOW);
        nodes.saw(contact(1), NOW);
        for number in 2..2000 {
            nodes.saw(neighbour(number), NOW);
        }
        assert_eq!(nodes.latest().count(), 1 + SEEN_NEIGHBOURS_MAX);
        assert_eq!(
            nodes.latest().next().map(|node| node.contact),
            Some(neighbour(1999))
        );
        // A file that was written without this bound is read within it.
        let line = |node: NodeContact| format!("{} {node}\n", NOW.as_secs());
        let lines: String = (2..1024).map(neighbour).map(line).collect();
        let text = format!("{SEEN_HEADER}\n{}{lines}", line(contact(1)));
        fs::write(home.path().join(SEEN_NODES_FILE), text).expect("a write");
        let read = SeenNodes::open(home.path(), NOW);
        assert_eq!(read.latest().count(), 1 + SEEN_NEIGHBOURS_MAX);
        assert!(read.latest().any(|node| node.contact == contact(1)));
    }

    #[test]
    fn a_damaged_file_begins_anew() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join(SEEN_NODES_FILE);
        let enode = contact(1);
        let large = "x".repeat(FILE_BYTES_MAX as usize + 1);
        for text in [
            "",
            "junk",
            "nodes 1\nx y\n",
            &format!("nodes 2\n1 {enode}\n"),
            &large,
        ] {
            fs::write(&path, text).expect("a write");
            assert_eq!(SeenNodes::open(home.path(), NOW).latest().count(), 0);
        }
        fs::write(&path, [0xff; 10]).expect("a write");
        let mut nodes = SeenNodes::open(home.path(), NOW);
        nodes.saw(contact(1), NOW);
        nodes.save(NOW).expect("written");
        assert_eq!(SeenNodes::open(home.path(), NOW).latest().count(), 1);
    }

    #[test]
    fn lists_of_the_user() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join(STATIC_NODES_FILE);
        assert_eq!(read_enodes(&path).expect("no file, no nodes"), []);
        let nodes: Vec<_> = (0..3).map(|number| contact(number).to_enode()).collect();
        write_enodes(&path, &nodes).expect("written");
        assert_eq!(read_enodes(&path).expect("readable"), nodes);
        // An entry may be the text of a node record.
        let claims = NodeClaims {
            ip: Some(IpAddr::from([50, 0, 0, 9])),
            tcp: 30304,
            udp: 30303,
            fork_id: None,
            has_snap: false,
        };
        let key = SecretKey::from_bytes(&[9; 32]).expect("a key");
        let record = NodeRecord::sign(&key, 1, &claims);
        let texts = [nodes[0].to_string(), record.to_string()];
        fs::write(&path, serde_json::to_string(&texts).expect("JSON")).expect("a write");
        let read = read_enodes(&path).expect("readable");
        assert_eq!(
            NodeContact::from_enode(&read[1]),
            record.contact(),
            "the record's node"
        );
        write_enodes(&path, &nodes).expect("written");
        let many = vec![nodes[0].clone(); LISTED_NODES_MAX + 1];
        assert!(write_enodes(&path, &many).is_err());
        assert_eq!(read_enodes(&path).expect("readable"), nodes);
        for (text, expected) in [
            ("{}", "expected a JSON list"),
            ("[1]", "expected a JSON list"),
            ("[\"enode://12@a:1\"]", "entry 0: node id"),
            ("[\"enr:AAAA\"]", "entry 0: node record"),
        ] {
            fs::write(&path, text).expect("a write");
            let error = read_enodes(&path).expect_err(text).to_string();
            assert!(
                error.contains(expected) && error.contains(STATIC_NODES_FILE),
                "{error}"
            );
        }
    }
}
