//! node/store
