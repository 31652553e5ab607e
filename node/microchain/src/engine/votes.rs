//! The depth of a proposal, and votes that must not count on another branch of the base chain
//! (docs/confirmations.md).

use primitives::{Address, B256};
use store::StoreError;

use super::MemberEngine;
use super::commitment::commitment;
use crate::contract::{ContractState, PROPOSAL_PENDING, Proposal};
use crate::event::Action;
use crate::memory::SentVote;

/// The proposal in progress, as this SCS saw it first.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeenProposal {
    /// The digest of the proposal with all its redemptions.
    digest: B256,
    /// The base block at which it was seen first.
    since: u64,
    /// Number and hash of a base block not above that one, if the VNODE tells hashes.
    block: Option<(u64, B256)>,
    /// Whether it was compared with the own chain.
    is_looked_at: bool,
}

/// The digest of everything in a proposal that must stay as it is.
fn digest(proposal: &Proposal) -> B256 {
    commitment(&Address::ZERO, proposal, &proposal.hash)
}

impl MemberEngine {
    /// Notes since when the proposal in progress is what it is, on this branch of the base chain.
    pub(super) fn look_at_proposal(&mut self) {
        let Some(contract) = &self.contract else { return };
        let current = &contract.current;
        if !current.is_pending() || !current.is_uploaded() {
            self.seen = None;
            return;
        }
        let digest = digest(current);
        let is_same = |seen: &SeenProposal| {
            seen.digest == digest && seen.since <= contract.base_block && is_below(contract, seen.block)
        };
        let mut seen = self.seen.filter(is_same).unwrap_or_else(|| SeenProposal {
            digest,
            since: contract.base_block,
            block: contract
                .branch
                .as_ref()
                .and_then(|branch| Some((branch.number, *branch.hashes.first()?))),
            is_looked_at: false,
        });
        // The hash of the very block is told only after the next one.
        let branch = contract.branch.as_ref();
        if let Some(hash) = branch.and_then(|branch| branch.hash_at(seen.since)) {
            seen.block = Some((seen.since, hash));
        }
        self.seen = Some(seen);
    }

    /// Whether the proposal in progress was not compared with the own chain before. It counts as
    /// compared from now on.
    pub(super) fn is_first_look(&mut self) -> bool {
        self.seen
            .as_mut()
            .is_some_and(|seen| !std::mem::replace(&mut seen.is_looked_at, true))
    }

    /// Whether enough base blocks follow the proposal in progress and its uploads.
    pub(super) fn is_deep(&self, contract: &ContractState) -> bool {
        self.seen.is_some_and(|seen| {
            seen.digest == digest(&contract.current)
                && contract.base_block >= seen.since.saturating_add(self.confirmations)
        })
    }

    /// Sends the vote of the member at `place` for the proposal in progress, and looks after it
    /// from now on, also after a restart.
    pub(super) fn send_vote(&mut self, contract: &ContractState, place: u64) -> Result<(), StoreError> {
        let current = &contract.current;
        let vote = SentVote {
            place,
            hash: current.hash,
            digest: digest(current),
            end: current.end,
            until: current.starting_block.saturating_add(contract.turn_blocks()),
        };
        self.remember(|memory| memory.add_sent(vote))?;
        self.withdrawn.remove(&vote.hash);
        self.call(vote.call());
        Ok(())
    }

    /// Withdraws votes whose proposals are not what they were: their branch of the base chain is
    /// gone, and another one could take the votes for something else.
    pub(super) fn withdraw_votes(&mut self) -> Result<(), StoreError> {
        let Some(contract) = &self.contract else {
            return Ok(());
        };
        let stands = |vote: &SentVote| {
            let (current, approved) = (&contract.current, &contract.approved);
            let is_open = current.is_pending() && current.hash == vote.hash;
            let is_same = || digest(current) == vote.digest;
            // After a flush of the same blocks there can be no such proposal on this branch.
            (is_open && is_same()) || (approved.exists() && approved.end >= vote.end)
        };
        let base = contract.base_block;
        let kept = self.confirmations.saturating_add(contract.turn_blocks());
        let (standing, fallen): (Vec<_>, Vec<_>) = self
            .memory
            .sent_votes
            .iter()
            .copied()
            .filter(|vote| base <= vote.until.saturating_add(kept))
            .partition(stands);
        self.remember(|memory| {
            let count = memory.sent_votes.len();
            let is_kept = |vote: &SentVote| standing.contains(vote) || fallen.contains(vote);
            memory.sent_votes.retain(is_kept);
            memory.sent_votes.len() != count
        })?;
        let withdrawn = fallen.iter().map(|vote| vote.hash).collect();
        let before = std::mem::replace(&mut self.withdrawn, withdrawn);
        for vote in fallen.iter().filter(|vote| !before.contains(&vote.hash)) {
            tracing::warn!(
                chain = %self.setup.address, hash = %vote.hash, base,
                "a vote is withdrawn: its proposal is not what it was"
            );
            self.asked.remove(&vote.call());
            self.out.push(Action::Withdraw(vote.call()));
        }
        Ok(())
    }
}

/// Whether a base block is on the branch of the head, as far as the VNODE tells.
fn is_below(contract: &ContractState, block: Option<(u64, B256)>) -> bool {
    match (block, &contract.branch) {
        (Some((number, hash)), Some(branch)) => branch.hash_at(number) == Some(hash),
        _ => true,
    }
}

impl Proposal {
    /// Whether it is not decided.
    pub(crate) fn is_pending(&self) -> bool {
        self.exists() && self.flag == PROPOSAL_PENDING
    }

    /// Whether all its redemptions are uploaded.
    pub(crate) const fn is_uploaded(&self) -> bool {
        self.distribute_flag != 0 || self.users.len() as u64 >= self.redemptions_left
    }
}

#[cfg(test)]
mod tests {
    use crate::event::CONFIRMATIONS_DEFAULT;

    const PAGE: &str = include_str!("../../../../docs/confirmations.md");
    /// The most blocks of a branch within a turn, less those of the calls at its end.
    const RACE_BLOCKS: usize = 46;

    /// The chance of a share `q` of the hash power after `z` blocks, by Nakamoto.
    fn nakamoto(q: f64, z: i32) -> f64 {
        let ratio = q / (1.0 - q);
        let mean = f64::from(z) * ratio;
        let mut poisson = (-mean).exp();
        let mut safe = 0.0;
        for k in 0..=z {
            safe += poisson * (1.0 - ratio.powi(z - k));
            poisson *= mean / f64::from(k + 1);
        }
        1.0 - safe
    }

    /// The same by Rosenfeld.
    fn rosenfeld(q: f64, z: i32) -> f64 {
        let p = 1.0 - q;
        let mut ways = 1.0;
        let mut safe = 0.0;
        for m in 0..=z {
            let one_wins = p.powi(z) * q.powi(m);
            safe += ways * p.powi(m).mul_add(-q.powi(z), one_wins);
            ways *= f64::from(m + z) / f64::from(m + 1);
        }
        1.0 - safe
    }

    /// The chance in a race that ends with the turn.
    fn race(q: f64, z: usize) -> f64 {
        // By the blocks of the honest branch and of the other one, from the end to the begin.
        let mut after = vec![0.0; RACE_BLOCKS + 2];
        for honest in (0..RACE_BLOCKS).rev() {
            let mut row = vec![0.0; RACE_BLOCKS + 2];
            for other in (0..RACE_BLOCKS).rev() {
                let wins = honest > z && other + 1 > honest;
                let next = if wins { 1.0 } else { row[other + 1] };
                row[other] = q.mul_add(next, (1.0 - q) * after[other]);
            }
            after = row;
        }
        after[0]
    }

    #[test]
    fn the_default_depth_is_what_the_page_says() {
        let depth = i32::try_from(CONFIRMATIONS_DEFAULT).unwrap();
        let title = format!(" z = {depth} ");
        let tables: Vec<&str> = PAGE.split("| hash power |").skip(1).collect();
        assert_eq!(tables.len(), 3);
        for (kind, table) in tables.into_iter().enumerate() {
            let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split('|').collect()).collect();
            let column = rows[0]
                .iter()
                .position(|cell| *cell == title)
                .expect("the default");
            let mut count = 0;
            for row in rows[2..].iter().take_while(|row| row.len() > 2) {
                let percent: f64 = row[1].trim_matches([' ', '%']).parse().unwrap();
                // The head has lost what stands before its first number.
                let told: f64 = row[column + 2].trim().parse().unwrap();
                let q = percent / 100.0;
                let chance = match kind {
                    0 => nakamoto(q, depth),
                    1 => rosenfeld(q, depth),
                    _ => race(q, depth as usize),
                };
                assert!(
                    (100.0 * chance / told - 1.0).abs() < 0.06,
                    "{kind} {percent}: {chance} {told}"
                );
                count += 1;
            }
            assert_eq!(count, 5);
        }
    }
}
