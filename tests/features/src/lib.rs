//! Has no code: its manifest turns on features. See there.
