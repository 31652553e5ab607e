//! Makes a case smaller as long as it still shows a difference.

use crate::case::{Case, CaseInput};
use crate::program::{Part, Program};

/// The most attempts for one case.
pub const ATTEMPTS_MAX: usize = 3000;

/// A place in a case that holds a program.
#[derive(Clone, Copy, Debug)]
enum ProgramPlace {
    Account(usize),
    Input(usize, usize),
}

/// Removes blocks, transactions, storage, accounts and instructions while `differs` is true for
/// what is left.
pub fn shrink(case: &Case, mut differs: impl FnMut(&Case) -> bool) -> Case {
    let mut attempts = 0;
    let mut differs = |smaller: &Case| {
        attempts += 1;
        attempts <= ATTEMPTS_MAX && differs(smaller)
    };
    let mut best = case.clone();
    loop {
        let size = size(&best);
        drop_blocks(&mut best, &mut differs);
        drop_transactions(&mut best, &mut differs);
        drop_accounts(&mut best, &mut differs);
        for place in program_places(&best) {
            drop_parts(&mut best, place, &mut differs);
        }
        if self::size(&best) == size {
            return best;
        }
    }
}

/// A number that becomes smaller with each thing that is removed.
fn size(case: &Case) -> usize {
    let accounts = case
        .accounts
        .iter()
        .map(|account| 1 + account.storage.len() + parts(&account.code));
    let transactions = case.blocks.iter().flat_map(|block| &block.transactions);
    let inputs = transactions.map(|transaction| match &transaction.input {
        CaseInput::Bytes(bytes) => 1 + bytes.len(),
        CaseInput::Code(program) => 1 + parts(program),
    });
    case.blocks.len() + accounts.sum::<usize>() + inputs.sum::<usize>()
}

fn parts(program: &Program) -> usize {
    let inner = program.0.iter().map(|part| match part {
        Part::Inner(_, program) => 1 + parts(program),
        Part::Raw(bytes) => 1 + bytes.len(),
        _ => 1,
    });
    inner.sum()
}

/// Keeps a change if the case still differs.
fn attempt(best: &mut Case, differs: &mut impl FnMut(&Case) -> bool, change: impl FnOnce(&mut Case)) -> bool {
    let mut smaller = best.clone();
    change(&mut smaller);
    let kept = differs(&smaller);
    if kept {
        *best = smaller;
    }
    kept
}

fn drop_blocks(best: &mut Case, differs: &mut impl FnMut(&Case) -> bool) {
    for index in (0..best.blocks.len()).rev() {
        if best.blocks.len() > 1 {
            attempt(best, differs, |case| {
                case.blocks.remove(index);
                // An uncle needs a grandparent.
                if let Some(first) = case.blocks.first_mut() {
                    first.uncle = None;
                }
            });
        }
        if let Some(block) = best.blocks.get(index)
            && block.uncle.is_some()
        {
            attempt(best, differs, |case| case.blocks[index].uncle = None);
        }
    }
}

fn drop_transactions(best: &mut Case, differs: &mut impl FnMut(&Case) -> bool) {
    for block in 0..best.blocks.len() {
        for index in (0..best.blocks[block].transactions.len()).rev() {
            let dropped = attempt(best, differs, |case| {
                case.blocks[block].transactions.remove(index);
            });
            if !dropped
                && matches!(&best.blocks[block].transactions[index].input, CaseInput::Bytes(bytes) if !bytes.is_empty())
            {
                attempt(best, differs, |case| {
                    case.blocks[block].transactions[index].input = CaseInput::Bytes(Vec::new());
                });
            }
        }
    }
}

fn drop_accounts(best: &mut Case, differs: &mut impl FnMut(&Case) -> bool) {
    for index in (0..best.accounts.len()).rev() {
        let dropped = attempt(best, differs, |case| {
            case.accounts.remove(index);
        });
        if dropped {
            continue;
        }
        if !best.accounts[index].storage.is_empty() {
            attempt(best, differs, |case| case.accounts[index].storage.clear());
        }
        if !best.accounts[index].code.0.is_empty() {
            attempt(best, differs, |case| case.accounts[index].code.0.clear());
        }
    }
}

fn program_places(case: &Case) -> Vec<ProgramPlace> {
    let accounts = (0..case.accounts.len()).map(ProgramPlace::Account);
    let inputs = case.blocks.iter().enumerate().flat_map(|(block, plan)| {
        (0..plan.transactions.len()).map(move |index| ProgramPlace::Input(block, index))
    });
    accounts.chain(inputs).collect()
}

fn program_at(case: &mut Case, place: ProgramPlace) -> Option<&mut Program> {
    match place {
        ProgramPlace::Account(index) => Some(&mut case.accounts.get_mut(index)?.code),
        ProgramPlace::Input(block, index) => {
            match &mut case.blocks.get_mut(block)?.transactions.get_mut(index)?.input {
                CaseInput::Code(program) => Some(program),
                CaseInput::Bytes(_) => None,
            }
        }
    }
}

/// The parts of an inner program, by the way to it.
fn inner_at<'a>(program: &'a mut Program, path: &[usize]) -> Option<&'a mut Vec<Part>> {
    match path {
        [] => Some(&mut program.0),
        [first, rest @ ..] => match program.0.get_mut(*first)? {
            Part::Inner(_, inner) => inner_at(inner, rest),
            _ => None,
        },
    }
}

/// Removes runs of parts: first halves, then quarters, and so on. Then the same inside of inner
/// programs.
fn drop_parts(best: &mut Case, place: ProgramPlace, differs: &mut impl FnMut(&Case) -> bool) {
    let mut paths = vec![Vec::new()];
    while let Some(path) = paths.pop() {
        let count = |case: &mut Case| {
            program_at(case, place)
                .and_then(|program| inner_at(program, &path))
                .map_or(0, |parts| parts.len())
        };
        let mut run = count(best);
        while run > 0 {
            let mut start = 0;
            while start < count(best) {
                let dropped = attempt(best, differs, |case| {
                    let parts = program_at(case, place).and_then(|program| inner_at(program, &path));
                    if let Some(parts) = parts {
                        parts.drain(start..(start + run).min(parts.len()));
                    }
                });
                if !dropped {
                    start += run;
                }
            }
            run /= 2;
        }
        let left = program_at(best, place).and_then(|program| inner_at(program, &path));
        for (index, part) in left.into_iter().flatten().enumerate() {
            if matches!(part, Part::Inner(..)) {
                paths.push([path.as_slice(), &[index]].concat());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate;
    use crate::rules::RULES;

    #[test]
    fn what_makes_the_difference_is_left() {
        // The difference is a SELFDESTRUCT in the code of an account.
        let is_there = |part: &Part| *part == Part::Op(0xff);
        let differs = |case: &Case| {
            case.accounts
                .iter()
                .any(|account| account.code.0.iter().any(is_there))
        };
        let case = (0..)
            .map(|seed| generate::case(seed, &RULES[7]))
            .find(differs)
            .expect("some case has one");
        let small = shrink(&case, differs);
        assert_eq!(small.accounts.len(), 1);
        assert_eq!(small.accounts[0].code.0, [Part::Op(0xff)]);
        assert_eq!(small.blocks.len(), 1);
        assert!(small.blocks[0].transactions.is_empty());
    }
}
