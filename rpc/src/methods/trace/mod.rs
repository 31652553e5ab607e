//! The `trace` module: calls of transactions and rewards of blocks in the form of Parity.
//!
//! `replay.rs` runs transactions and calls again and shows their changes.

mod replay;

use chain::View;
use chain::rules::payment::BlockPayment;
use chain::trace::{CallOptions, FlatCall, FlatCalls, Trace, TraceRequest, Tracer};
use chain::view::StoredBlock;
use history::Roles;
use primitives::{Address, B256, U256};

use super::debug::trace_error;
use super::mc::stored_number;
use crate::budget::{query_limit, run_part};
use crate::decode::{FromParam, ParamFields};
use crate::error::{RpcError, RpcResult, failure};
use crate::indexed::IndexedPast;
use crate::json::{Json, JsonArray, JsonOf};
use crate::modules::NameStyle;
use crate::node::Node;
use crate::objects::{ParityTraceObject, TracePlace, shown_hash};
use crate::table::Method;
use crate::types::{BlockRef, Count, ParamError};
use crate::wire_type::WireType;

/// The parts of an account that traces show.
const IN_TRACES: Roles = Roles::END.or(Roles::CALL).or(Roles::PAID);
/// The most blocks of one `trace_filter`.
const FILTER_BLOCKS_MAX: u64 = 10_000;

/// The rows of this module.
pub fn methods() -> Vec<Method<Node>> {
    let mut rows = vec![
        Method::heavy("trace_block", ["block"], trace_block)
            .summary("Returns all calls of a block's transactions as a flat list, and the rewards of the block."),
        Method::heavy("trace_transaction", ["hash"], trace_transaction)
            .summary("Returns all calls of a transaction as a flat list."),
        Method::heavy("trace_filter", ["filter"], trace_filter).summary(
            "Returns the calls from and to some accounts in a range of at most 10,000 blocks, as a flat list. \
             With --index address only blocks of these accounts count.",
        ),
        Method::heavy("trace_get", ["hash", "traceAddress"], trace_get).summary(
            "Returns the call of a transaction that has this place in the tree of its calls. The \
             transaction's own call has an empty one.",
        ),
    ];
    rows.extend(replay::methods());
    rows
}

/// Traces as JSON; null if there is no such block or transaction.
type TraceList = JsonOf<Option<Vec<ParityTraceObject<'static>>>>;

fn request(node: &Node) -> TraceRequest {
    let calls = CallOptions {
        own_gas: true,
        ..CallOptions::default()
    };
    let limit = query_limit(node.settings.trace_timeout_max);
    TraceRequest::new(Tracer::Calls(calls), limit)
}

fn place(block: &StoredBlock, index: Option<usize>) -> TracePlace {
    let transaction = index.and_then(|index| {
        let transaction = block.body.transactions.get(index)?;
        Some((shown_hash(transaction, NameStyle::Ethereum), index))
    });
    TracePlace {
        block_hash: block.hash,
        block_number: block.record.header.number,
        transaction,
    }
}

/// The miners that a block pays: its own, then those of its uncles.
fn rewards(node: &Node, block: &StoredBlock) -> Vec<(Address, bool, U256)> {
    let header = &block.record.header;
    if header.number == 0 {
        return Vec::new();
    }
    let payment = BlockPayment::of(node.chain.spec(), header.number, &block.body.uncles);
    let own = (header.beneficiary, false, payment.miner);
    let of_uncles = payment.uncles.into_iter();
    std::iter::once(own)
        .chain(of_uncles.map(|(author, value)| (author, true, value)))
        .collect()
}

/// Selects traces, and counts those that are skipped and those that are taken.
struct Selection {
    from: Vec<Address>,
    to: Vec<Address>,
    skip: u64,
    left: u64,
}

impl Selection {
    const fn all() -> Self {
        Self {
            from: Vec::new(),
            to: Vec::new(),
            skip: 0,
            left: u64::MAX,
        }
    }

    /// Whether the trace with these ends is one of the answer.
    fn takes(&mut self, from: Option<Address>, to: Option<Address>) -> bool {
        let matches = |set: &[Address], end: Option<Address>| {
            set.is_empty() || end.is_some_and(|end| set.contains(&end))
        };
        if self.left == 0 || !matches(&self.from, from) || !matches(&self.to, to) {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.left -= 1;
        true
    }
}

/// Writes the traces of a block that `selection` takes.
fn write_block(
    node: &Node,
    view: &View,
    block: &StoredBlock,
    request: &TraceRequest,
    selection: &mut Selection,
    out: &mut JsonArray,
) -> RpcResult<()> {
    for (index, top) in view.call_trees(block, request).map_err(trace_error)? {
        for call in FlatCalls::of(&top) {
            let (from, to) = call.ends();
            if selection.takes(Some(from), to) {
                out.push(&ParityTraceObject::call(call, Some(place(block, Some(index)))))?;
            }
        }
    }
    for (author, is_uncle, value) in rewards(node, block) {
        if selection.takes(None, Some(author)) {
            out.push(&ParityTraceObject::reward(
                author,
                is_uncle,
                value,
                place(block, None),
            ))?;
        }
    }
    Ok(())
}

fn none() -> RpcResult<TraceList> {
    JsonOf::write(&None::<Vec<ParityTraceObject<'_>>>)
}

/// `trace_block`.
fn trace_block(node: &Node, (at,): (BlockRef,)) -> RpcResult<TraceList> {
    let view = node.view()?;
    let number = stored_number(&view, at, "trace")?;
    let Some(block) = view.block(number).map_err(failure)? else {
        return none();
    };
    let mut out = JsonArray::new();
    write_block(
        node,
        &view,
        &block,
        &request(node),
        &mut Selection::all(),
        &mut out,
    )?;
    Ok(JsonOf::trust(Json::from_text(out.finish()?)))
}

/// `trace_transaction`.
fn trace_transaction(node: &Node, (hash,): (B256,)) -> RpcResult<TraceList> {
    let view = node.view()?;
    let Some((block, index)) = view.transaction(&hash).map_err(failure)? else {
        return none();
    };
    let trace = view.trace_transaction(&block, index, &request(node));
    let mut out = JsonArray::new();
    if let Trace::Calls(top) = trace.map_err(trace_error)?
        && !top.kind.is_empty()
    {
        for call in FlatCalls::of(&top) {
            out.push(&ParityTraceObject::call(call, Some(place(&block, Some(index)))))?;
        }
    }
    Ok(JsonOf::trust(Json::from_text(out.finish()?)))
}

/// `trace_get`: null if the transaction has no such call.
fn trace_get(
    node: &Node,
    (hash, address): (B256, Vec<Count>),
) -> RpcResult<JsonOf<Option<ParityTraceObject<'static>>>> {
    let view = node.view()?;
    let Some((block, index)) = view.transaction(&hash).map_err(failure)? else {
        return JsonOf::write(&None::<ParityTraceObject<'_>>);
    };
    let trace = view.trace_transaction(&block, index, &request(node));
    let trace = trace.map_err(trace_error)?;
    let calls = match &trace {
        Trace::Calls(top) if !top.kind.is_empty() => Some(FlatCalls::of(top)),
        _ => None,
    };
    let is_asked_for = |call: &FlatCall<'_>| {
        let indices = call.address.iter().map(|index| *index as u64);
        indices.eq(address.iter().map(|index| index.0))
    };
    let call = calls.into_iter().flatten().find(is_asked_for);
    JsonOf::write(&call.map(|call| ParityTraceObject::call(call, Some(place(&block, Some(index))))))
}

/// The object of `trace_filter`.
#[derive(Debug, PartialEq, Eq)]
struct TraceFilter {
    from: BlockRef,
    to: BlockRef,
    from_addresses: Vec<Address>,
    to_addresses: Vec<Address>,
    after: u64,
    count: u64,
}

impl FromParam for TraceFilter {
    const TYPE: WireType = WireType::Named("TraceFilter");

    fn from_json(json: &str) -> Result<Self, ParamError> {
        let fields = ParamFields::read(json)?;
        let addresses = |name| {
            fields
                .get::<Option<Vec<Address>>>(name)
                .map(Option::unwrap_or_default)
        };
        let number = |name| {
            fields
                .get::<Option<Count>>(name)
                .map(|count| count.map(|count| count.0))
        };
        Ok(Self {
            from: fields.get("fromBlock")?,
            to: fields.get("toBlock")?,
            from_addresses: addresses("fromAddress")?,
            to_addresses: addresses("toAddress")?,
            after: number("after")?.unwrap_or(0),
            count: number("count")?.unwrap_or(u64::MAX),
        })
    }
}

/// The first block from `number` on that may have calls or rewards of the selected accounts: an
/// indexed one of theirs, or the first one that is not indexed.
fn next_of(past: &IndexedPast<'_>, selection: &Selection, number: u64) -> RpcResult<u64> {
    let accounts = match selection.from.as_slice() {
        [] => &selection.to,
        from => from,
    };
    let mut first = number.max(past.end());
    for account in accounts {
        if let Some(found) = past.since(account, IN_TRACES, number)? {
            first = first.min(found);
        }
    }
    Ok(first)
}

/// `trace_filter`: rewards count as calls to the miners that they pay.
fn trace_filter(
    node: &Node,
    (filter,): (TraceFilter,),
) -> RpcResult<JsonOf<Vec<ParityTraceObject<'static>>>> {
    let view = node.view()?;
    let first = stored_number(&view, filter.from, "trace")?;
    let last = stored_number(&view, filter.to, "trace")?.min(view.head_number());
    let names_nobody = filter.from_addresses.is_empty() && filter.to_addresses.is_empty();
    let past = if names_nobody {
        None
    } else {
        IndexedPast::of(node, &view)?
    };
    let searched = past.as_ref().map_or(first, |past| past.end().max(first));
    if last.saturating_sub(searched) >= FILTER_BLOCKS_MAX {
        return Err(RpcError::refused(format!(
            "range of {} blocks: expected at most {FILTER_BLOCKS_MAX}",
            last - searched + 1
        )));
    }
    let mut selection = Selection {
        from: filter.from_addresses,
        to: filter.to_addresses,
        skip: filter.after,
        left: filter.count,
    };
    let (request, mut out) = (request(node), JsonArray::new());
    let (mut next, mut visited) = (first, 0);
    while selection.left > 0 {
        let number = match &past {
            Some(past) => next_of(past, &selection, next)?,
            None => next,
        };
        if number > last {
            break;
        }
        (next, visited) = (number + 1, visited + 1);
        if visited > FILTER_BLOCKS_MAX {
            return Err(RpcError::refused(format!(
                "blocks of these accounts: got more than {FILTER_BLOCKS_MAX}, expected at most as many: set a count"
            )));
        }
        request.limit.check().map_err(RpcError::refused_by)?;
        let missing = || failure(format_args!("block {number} is below the head and not stored"));
        let block = view.block(number).map_err(failure)?.ok_or_else(missing)?;
        run_part(|| write_block(node, &view, &block, &request, &mut selection, &mut out))?;
    }
    Ok(JsonOf::trust(Json::from_text(out.finish()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters() {
        let address = Address::repeat_byte(1);
        let json = format!(
            r#"{{"fromBlock":"0x1","toBlock":"latest","fromAddress":["{address}"],"after":2,"count":"0x3"}}"#
        );
        let expected = TraceFilter {
            from: BlockRef::Number(1),
            to: BlockRef::Latest,
            from_addresses: vec![address],
            to_addresses: Vec::new(),
            after: 2,
            count: 3,
        };
        assert_eq!(TraceFilter::from_json(&json), Ok(expected));
        let error = |json| TraceFilter::from_json(json).expect_err("refused").to_string();
        assert_eq!(
            error(r#"{"fromAddress":"0x1"}"#),
            "field fromAddress: got a string, expected an array"
        );
        assert_eq!(
            error(r#"{"toAddress":["0x1"]}"#),
            "field toAddress: element 0: odd number of hex digits"
        );
        assert_eq!(
            error(r#"{"count":-1}"#),
            "field count: expected a whole number of at most 64 bits"
        );
    }

    #[test]
    fn selections_skip_and_count() {
        let (one, two) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let mut selection = Selection {
            from: vec![one],
            to: vec![two],
            skip: 1,
            left: 2,
        };
        let mut takes = |from, to| selection.takes(Some(from), Some(to));
        assert!(!takes(one, one) && !takes(two, two), "no match");
        assert!(!takes(one, two), "skipped");
        assert!(takes(one, two) && takes(one, two));
        assert!(!takes(one, two), "enough");
    }
}
