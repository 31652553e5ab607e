//! The `erigon` module: what the explorer Otterscan asks of it.

use super::mc::FoundBlock;
use crate::json::JsonOf;
use crate::node::Node;
use crate::objects::HeaderObject;
use crate::table::{InlineError, Method, ReadScope};
use crate::types::BlockRef;

/// The rows of this module.
pub(crate) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::cached("erigon_getHeaderByNumber", ["block"], header_by_number)
            .summary("Returns the header of a canonical block, or of the pending block."),
    ]
}

/// `erigon_getHeaderByNumber`: null above the head.
fn header_by_number(
    node: &Node,
    (at,): (BlockRef,),
    scope: ReadScope,
) -> Result<JsonOf<Option<HeaderObject<'static>>>, InlineError> {
    let found = FoundBlock::by_reference(node, &node.view()?, at, scope)?;
    Ok(JsonOf::write(&found.as_ref().map(FoundBlock::header))?)
}
