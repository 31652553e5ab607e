//! The facts that a member must remember after a crash: which slot it has signed, how it has voted,
//! which votes it may have to withdraw, which members the chain base has named, who broke the
//! rules.
//!
//! The memory is one row of the store. Each change is on the disk before the engine acts on it.

use std::collections::VecDeque;

use primitives::rlp::{RlpReader, encode_fields_to_vec};
use primitives::{Address, B256, Bytes, DecodeError};
use store::{Source, Store, StoreError, TableId, meta_key};

use crate::contract::BaseCall;

/// Votes that are kept.
const VOTES_KEPT: usize = 32;
/// Own votes that are looked after. A turn has one.
const SENT_VOTES_MAX: usize = 16;
/// Lists of members that are kept.
pub(crate) const LISTS_KEPT: usize = 64;
/// Members with evidence that are kept.
const ACCUSED_MAX: usize = 100;
/// The version of the row.
const VERSION: u64 = 2;
/// The version of rows of earlier programs.
const VERSION_WITHOUT_SENT_VOTES: u64 = 1;

/// A vote for a proposal, or an own proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CastVote {
    /// The base block at which the proposer's turn began.
    pub(crate) starting_block: u64,
    /// The proposal.
    pub(crate) hash: B256,
    /// The last block that it covers.
    pub(crate) end: u64,
    /// The hash of the last block.
    pub(crate) block: B256,
}

/// A vote that was sent to the chain base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentVote {
    /// The place of this SCS.
    pub(crate) place: u64,
    /// The proposal.
    pub(crate) hash: B256,
    /// The digest of the proposal that it is for.
    pub(crate) digest: B256,
    /// The last block that the proposal covers.
    pub(crate) end: u64,
    /// The last base block in which it could count.
    pub(crate) until: u64,
}

impl SentVote {
    /// The call that carries it.
    pub(crate) const fn call(&self) -> BaseCall {
        BaseCall::Vote {
            place: self.place,
            hash: self.hash,
            redeem: true,
        }
    }
}

/// A list of members that the chain base had, from a base block on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadList {
    pub(crate) base: u64,
    pub(crate) members: Vec<Address>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemberMemory {
    /// The latest slot for which this SCS has signed a block.
    pub(crate) signed_slot: u64,
    /// The newest votes, oldest first.
    pub(crate) votes: VecDeque<CastVote>,
    /// Own votes that may not be in a block yet, or not in one that stays, oldest first.
    pub(crate) sent_votes: Vec<SentVote>,
    /// The lists of members that were read, oldest first, each other than the one before.
    pub(crate) lists: VecDeque<ReadList>,
    /// Members that broke the rules.
    pub(crate) accused: Vec<Address>,
}

impl MemberMemory {
    /// Reads the memory; an empty one if the store has none.
    pub(crate) fn read(store: &Store) -> Result<Self, StoreError> {
        let key = meta_key::MEMBER;
        let Some(row) = store.snapshot()?.get(TableId::Meta, key)? else {
            return Ok(Self::default());
        };
        Self::decode(&row).map_err(|error| StoreError::corrupt(TableId::Meta, key, error.to_string()))
    }

    /// Writes the memory. It is on the disk when this returns.
    pub(crate) fn write(&self, store: &Store) -> Result<(), StoreError> {
        let batch = store.batch()?;
        batch.write(|tables| tables.put(TableId::Meta, meta_key::MEMBER, &self.encode()))?;
        batch.commit()
    }

    /// The vote in the turn that began at `starting_block`.
    pub(crate) fn vote_of(&self, starting_block: u64) -> Option<&CastVote> {
        self.votes
            .iter()
            .find(|vote| vote.starting_block == starting_block)
    }

    /// Adds a vote. Returns true: it is always a change.
    pub(crate) fn add_vote(&mut self, vote: CastVote) -> bool {
        self.votes.push_back(vote);
        if self.votes.len() > VOTES_KEPT {
            self.votes.pop_front();
        }
        true
    }

    /// Remembers a vote that is sent. Returns whether anything changed.
    pub(crate) fn add_sent(&mut self, vote: SentVote) -> bool {
        if self.sent_votes.last() == Some(&vote) {
            return false;
        }
        self.sent_votes.retain(|one| one.call() != vote.call());
        if self.sent_votes.len() == SENT_VOTES_MAX {
            self.sent_votes.remove(0);
        }
        self.sent_votes.push(vote);
        true
    }

    /// Takes what was read at a base block. After a reorganization of the base chain `base` is
    /// lower than before. Returns whether anything changed.
    pub(crate) fn take_list(&mut self, base: u64, members: &[Address]) -> bool {
        let before = self.lists.len();
        while self.lists.back().is_some_and(|list| list.base > base) {
            self.lists.pop_back();
        }
        let removed = self.lists.len() != before;
        if self.lists.back().is_some_and(|list| list.members == members) {
            return removed;
        }
        self.lists.push_back(ReadList {
            base,
            members: members.to_vec(),
        });
        if self.lists.len() > LISTS_KEPT {
            self.lists.pop_front();
        }
        true
    }

    /// Whether these members were those of the chain base at any base block from `first` on.
    pub(crate) fn had_members(&self, members: &[Address], first: u64) -> bool {
        let ends = self.lists.iter().skip(1).map(|next| next.base);
        let ends = ends.chain([u64::MAX]);
        let mut spans = self.lists.iter().zip(ends);
        spans.any(|(list, end)| end > first && list.members == members)
    }

    /// Remembers that a member broke the rules. Returns whether it is new.
    pub(crate) fn accuse(&mut self, member: Address) -> bool {
        let is_new = !self.accused.contains(&member) && self.accused.len() < ACCUSED_MAX;
        if is_new {
            self.accused.push(member);
        }
        is_new
    }

    fn encode(&self) -> Vec<u8> {
        let votes: Vec<Bytes> = self
            .votes
            .iter()
            .map(|vote| {
                encode_fields_to_vec(&[&vote.starting_block, &vote.hash, &vote.end, &vote.block]).into()
            })
            .collect();
        let lists: Vec<Bytes> = self
            .lists
            .iter()
            .map(|list| encode_fields_to_vec(&[&list.base, &list.members]).into())
            .collect();
        let sent_votes: Vec<Bytes> = self
            .sent_votes
            .iter()
            .map(|vote| {
                encode_fields_to_vec(&[&vote.place, &vote.hash, &vote.digest, &vote.end, &vote.until]).into()
            })
            .collect();
        encode_fields_to_vec(&[
            &VERSION,
            &self.signed_slot,
            &votes,
            &lists,
            &self.accused,
            &sent_votes,
        ])
    }

    fn decode(row: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = RlpReader::open(row, "member")?;
        let version = fields.u64("member.version")?;
        // A row of a newer program has more.
        match version {
            VERSION_WITHOUT_SENT_VOTES => fields.expect_count("member after its version", 4, "4")?,
            _ => fields.expect_count("member after its version", 5, "5")?,
        }
        let mut memory = Self {
            signed_slot: fields.u64("member.signed_slot")?,
            ..Default::default()
        };
        let mut votes = fields.list("member.votes")?;
        while !votes.is_empty() {
            let mut vote = RlpReader::open(votes.slice("member.votes")?, "member.vote")?;
            memory.votes.push_back(CastVote {
                starting_block: vote.u64("vote.starting_block")?,
                hash: vote.fixed("vote.hash")?,
                end: vote.u64("vote.end")?,
                block: vote.fixed("vote.block")?,
            });
        }
        let mut lists = fields.list("member.lists")?;
        while !lists.is_empty() {
            let mut list = RlpReader::open(lists.slice("member.lists")?, "member.list")?;
            let base = list.u64("list.base")?;
            let members = read_addresses(&mut list, "list.members")?;
            memory.lists.push_back(ReadList { base, members });
        }
        memory.accused = read_addresses(&mut fields, "member.accused")?;
        if version > VERSION_WITHOUT_SENT_VOTES {
            let mut sent = fields.list("member.sent_votes")?;
            while !sent.is_empty() {
                let mut vote = RlpReader::open(sent.slice("member.sent_votes")?, "member.sent_vote")?;
                memory.sent_votes.push(SentVote {
                    place: vote.u64("vote.place")?,
                    hash: vote.fixed("vote.hash")?,
                    digest: vote.fixed("vote.digest")?,
                    end: vote.u64("vote.end")?,
                    until: vote.u64("vote.until")?,
                });
            }
        }
        Ok(memory)
    }
}

fn read_addresses(reader: &mut RlpReader<'_>, field: &'static str) -> Result<Vec<Address>, DecodeError> {
    let mut list = reader.list(field)?;
    let mut addresses = Vec::new();
    while !list.is_empty() {
        addresses.push(list.address(field)?);
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(bytes: &[u8]) -> Vec<Address> {
        bytes.iter().map(|byte| Address::repeat_byte(*byte)).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let store = Store::in_memory().unwrap();
        assert_eq!(MemberMemory::read(&store).unwrap(), MemberMemory::default());
        let mut memory = MemberMemory {
            signed_slot: 77,
            ..Default::default()
        };
        for starting_block in 0..40 {
            memory.add_vote(CastVote {
                starting_block,
                hash: B256::repeat_byte(1),
                end: 9,
                block: B256::repeat_byte(2),
            });
        }
        for place in [7, 7, 8] {
            memory.add_sent(SentVote {
                place,
                hash: B256::repeat_byte(4),
                digest: B256::repeat_byte(5),
                end: 6,
                until: 7,
            });
        }
        memory.take_list(5, &members(&[1, 2]));
        memory.take_list(9, &members(&[]));
        assert!(memory.accuse(Address::repeat_byte(3)) && !memory.accuse(Address::repeat_byte(3)));
        memory.write(&store).unwrap();
        assert_eq!(MemberMemory::read(&store).unwrap(), memory);
        assert_eq!(memory.votes.len(), VOTES_KEPT);
        assert!(memory.vote_of(39).is_some() && memory.vote_of(0).is_none());
        assert_eq!(memory.sent_votes.len(), 2);
        for cut in 0..memory.encode().len() {
            assert!(MemberMemory::decode(&memory.encode()[..cut]).is_err());
        }
    }

    #[test]
    fn a_row_of_an_earlier_program_is_read() {
        let none: Vec<Bytes> = Vec::new();
        let row = encode_fields_to_vec(&[&VERSION_WITHOUT_SENT_VOTES, &5u64, &none, &none, &members(&[3])]);
        let expected = MemberMemory {
            signed_slot: 5,
            accused: members(&[3]),
            ..Default::default()
        };
        assert_eq!(MemberMemory::decode(&row).unwrap(), expected);
    }

    #[test]
    fn a_row_of_a_newer_program_is_refused() {
        let none: Vec<Bytes> = Vec::new();
        let row = encode_fields_to_vec(&[&(VERSION + 1), &5u64, &none, &none, &none, &none, &none]);
        let refused = MemberMemory::decode(&row).unwrap_err().to_string();
        assert_eq!(refused, "member after its version: got 6 fields, expected 5");
    }

    #[test]
    fn lists_hold_from_one_change_to_the_next() {
        let mut memory = MemberMemory::default();
        let (one, two) = (members(&[1]), members(&[1, 2]));
        assert!(memory.take_list(10, &one) && !memory.take_list(15, &one) && memory.take_list(20, &two));
        assert!(memory.had_members(&one, 19) && !memory.had_members(&one, 20));
        assert!(memory.had_members(&two, 500) && memory.had_members(&two, 0));
        // The base chain takes back the change.
        assert!(memory.take_list(18, &one));
        assert!(memory.had_members(&one, 500) && !memory.had_members(&two, 0));
    }
}
