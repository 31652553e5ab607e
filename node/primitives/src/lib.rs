//! node/primitives
