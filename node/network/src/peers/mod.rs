//! What this node does with its peers, from the first Status on.

mod interface;

pub use interface::{PeerFacts, PeerFault, PeerId, PeerNews, PeerOrder, PeerRequest, RequestTicket};
