//! node/chain
