//! `vnode export`: blocks of the chain as a stream that `import` takes.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;

use chain::View;
use primitives::Block;
use store::{StoreError, TableId};

use super::directory::{Directory, Purpose};
use super::progress::{Progress, Units};
use super::sink::{Sink, is_standard};
use super::{CommandError, say, stop};
use crate::options::VnodeOptions;

/// Writes the blocks from `first` (block 0) to `last` (the head).
pub(super) fn run(
    options: &VnodeOptions,
    file: &Path,
    first: Option<u64>,
    last: Option<u64>,
) -> Result<(), CommandError> {
    let directory = Directory::open(options, Purpose::Read)?;
    let view = View::new(&directory.store, directory.spec.clone())?;
    let head = view.head_number();
    let (first, last) = range(first, last, head)?;
    let stop = stop::flag()?;
    let write = |source| CommandError::Write {
        path: file.to_owned(),
        source,
    };
    let mut sink = Sink::open(file).map_err(write)?;
    let total = (last - first).saturating_add(1);
    let mut progress = Progress::new(options, "export", Units::Things, total);
    let mut bytes = 0;
    for number in first..=last {
        if stop.load(Ordering::Acquire) {
            return Err(CommandError::Interrupted);
        }
        let rlp = block(&view, number)?.encode();
        sink.write_all(&rlp).map_err(write)?;
        bytes += rlp.len() as u64;
        progress.at(number - first + 1, || format!("blocks, {bytes} bytes"));
    }
    sink.finish().map_err(write)?;
    let seconds = progress.end();
    let summary = format!(
        "exported {total} blocks, {first} to {last}, {bytes} bytes in {seconds:.2} s: {:.1} blocks/s",
        total as f64 / seconds
    );
    if is_standard(file) {
        eprintln!("{summary}");
    } else {
        say(&summary);
    }
    Ok(())
}

/// The blocks that are meant.
fn range(first: Option<u64>, last: Option<u64>, head: u64) -> Result<(u64, u64), CommandError> {
    let first = first.unwrap_or(0);
    if let Some(got) = [Some(first), last]
        .into_iter()
        .flatten()
        .find(|number| *number > head)
    {
        return Err(CommandError::AboveHead { got, head });
    }
    let last = last.unwrap_or(head);
    if first > last {
        return Err(CommandError::Range { first, last });
    }
    Ok((first, last))
}

/// A canonical block, compared with its hash.
fn block(view: &View, number: u64) -> Result<Block, StoreError> {
    let missing = |reason: String| StoreError::corrupt(TableId::NumberToHash, &number.to_be_bytes(), reason);
    let stored = view
        .block(number)?
        .ok_or_else(|| missing("no such block".to_owned()))?;
    let block = Block {
        header: stored.record.header,
        transactions: stored.body.transactions,
        uncles: stored.body.uncles,
    };
    let got = block.hash();
    if got == stored.hash {
        Ok(block)
    } else {
        Err(missing(format!("header has hash {got}, want {}", stored.hash)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_lie_below_the_head() {
        let check = |first, last, expected: Result<(u64, u64), &str>| {
            let got = range(first, last, 10).map_err(|error| error.to_string());
            assert_eq!(got, expected.map_err(str::to_owned));
        };
        check(None, None, Ok((0, 10)));
        check(Some(3), None, Ok((3, 10)));
        check(Some(3), Some(3), Ok((3, 3)));
        check(Some(10), Some(10), Ok((10, 10)));
        check(Some(4), Some(3), Err("the first block, 4, is above the last, 3"));
        check(
            Some(11),
            None,
            Err("got block 11, want at most the head, block 10"),
        );
        check(
            Some(0),
            Some(12),
            Err("got block 12, want at most the head, block 10"),
        );
        check(
            Some(u64::MAX),
            Some(0),
            Err("got block 18446744073709551615, want at most the head, block 10"),
        );
    }
}
