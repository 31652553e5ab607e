//! `vnode scs-demo`, and chain3 as its client.
