//! The children of a branch in memory: room for those that are there, not for sixteen.
//!
//! Most branches near the leaves have two or three children, and in an import of many blocks they
//! are most of what is in memory. This module knows links only.

use super::node::NodeLink;

/// The number of children that a branch can have.
const CHILDREN_MAX: u8 = 16;

/// The children of a branch, by nibble. None of them stays [`NodeLink::Empty`].
#[derive(Clone, Debug, Default)]
pub(super) struct Children {
    /// Bit N: child N is there.
    present: u16,
    /// In the order of their nibbles.
    links: Vec<NodeLink>,
}

impl Children {
    /// Children of a branch that will have so many.
    pub(super) fn with_capacity(count: usize) -> Self {
        Self {
            present: 0,
            links: Vec::with_capacity(count),
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.links.len()
    }

    const fn has(&self, nibble: u8) -> bool {
        self.present & (1 << nibble) != 0
    }

    /// The place of child `nibble` in `links`, whether it is there or not.
    const fn place(&self, nibble: u8) -> usize {
        (self.present & ((1 << nibble) - 1)).count_ones() as usize
    }

    pub(super) fn get(&self, nibble: u8) -> Option<&NodeLink> {
        self.has(nibble).then(|| &self.links[self.place(nibble)])
    }

    pub(super) fn get_mut(&mut self, nibble: u8) -> Option<&mut NodeLink> {
        let place = self.place(nibble);
        self.has(nibble).then(|| &mut self.links[place])
    }

    /// Child `nibble`. If it is not there, it is made empty, and the caller must fill it.
    pub(super) fn get_or_empty(&mut self, nibble: u8) -> &mut NodeLink {
        let place = self.place(nibble);
        if !self.has(nibble) {
            // Doubling the room, as a list does, would take most of the memory that is saved.
            self.links.reserve_exact(1);
            self.links.insert(place, NodeLink::Empty);
            self.present |= 1 << nibble;
        }
        &mut self.links[place]
    }

    /// Sets child `nibble`. An empty link removes it.
    pub(super) fn set(&mut self, nibble: u8, link: NodeLink) {
        if !link.is_empty() {
            *self.get_or_empty(nibble) = link;
        } else if self.has(nibble) {
            self.links.remove(self.place(nibble));
            self.present &= !(1 << nibble);
        }
    }

    /// Takes child `nibble` out. Empty if it is not there.
    pub(super) fn take(&mut self, nibble: u8) -> NodeLink {
        let link = self.get_mut(nibble).map(std::mem::take).unwrap_or_default();
        self.set(nibble, NodeLink::Empty);
        link
    }

    /// The nibble of the first child.
    pub(super) const fn first(&self) -> Option<u8> {
        match self.present {
            0 => None,
            present => Some(present.trailing_zeros() as u8),
        }
    }

    /// The children, sorted by nibble.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u8, &NodeLink)> {
        self.all().filter_map(|(nibble, link)| Some((nibble, link?)))
    }

    /// Each nibble, and the child if it is there.
    pub(super) fn all(&self) -> impl Iterator<Item = (u8, Option<&NodeLink>)> {
        let mut links = self.links.iter();
        (0..CHILDREN_MAX).map(move |nibble| (nibble, if self.has(nibble) { links.next() } else { None }))
    }

    /// The children, sorted by nibble. None may be made empty.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u8, &mut NodeLink)> {
        let present = self.present;
        let nibbles = (0..CHILDREN_MAX).filter(move |nibble| present & (1 << nibble) != 0);
        nibbles.zip(&mut self.links)
    }

    /// Takes the children from `nibble` on out.
    pub(super) fn split_off(&mut self, nibble: u8) -> Self {
        let links = self.links.split_off(self.place(nibble));
        let lower = (1 << nibble) - 1;
        let upper = Self {
            present: self.present & !lower,
            links,
        };
        self.present &= lower;
        upper
    }

    /// Takes the children of `upper`, whose nibbles are all above those here.
    pub(super) fn append(&mut self, mut upper: Self) {
        self.links.append(&mut upper.links);
        self.present |= upper.present;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn link(byte: u8) -> NodeLink {
        NodeLink::Stored(primitives::B256::repeat_byte(byte))
    }

    /// The nibbles that are there, each with the byte of its link.
    fn content(children: &Children) -> Vec<(u8, u8)> {
        let byte = |link: &NodeLink| match link {
            NodeLink::Stored(hash) => hash[0],
            other => panic!("{other:?}"),
        };
        children
            .iter()
            .map(|(nibble, child)| (nibble, byte(child)))
            .collect()
    }

    proptest! {
        #[test]
        fn children_are_those_of_an_array(
            changes in proptest::collection::vec((0u8..16, proptest::option::of(0u8..9)), 0..60),
            half in 0u8..16,
        ) {
            let mut children = Children::default();
            let mut expected = [None; 16];
            for (nibble, byte) in changes {
                let before = children.get(nibble).is_some();
                prop_assert_eq!(before, expected[usize::from(nibble)].is_some());
                match byte {
                    Some(byte) => children.set(nibble, link(byte)),
                    None => prop_assert_eq!(children.take(nibble).is_empty(), !before),
                }
                expected[usize::from(nibble)] = byte;
            }
            let expected: Vec<_> = (0u8..).zip(expected).collect();
            let present: Vec<_> = expected.iter().filter_map(|(at, byte)| Some((*at, (*byte)?))).collect();
            prop_assert_eq!(&content(&children), &present);
            prop_assert_eq!(children.len(), present.len());
            prop_assert_eq!(children.first(), present.first().map(|(at, _)| *at));
            let all: Vec<_> = children.all().map(|(at, child)| (at, child.is_some())).collect();
            let all_expected: Vec<_> = expected.iter().map(|(at, byte)| (*at, byte.is_some())).collect();
            prop_assert_eq!(all, all_expected);
            let upper = children.split_off(half);
            prop_assert!(children.iter().all(|(at, _)| at < half) && upper.iter().all(|(at, _)| at >= half));
            children.append(upper);
            for (nibble, child) in children.iter_mut() {
                *child = link(nibble);
            }
            let renamed: Vec<_> = present.iter().map(|(at, _)| (*at, *at)).collect();
            prop_assert_eq!(content(&children), renamed);
        }
    }
}
