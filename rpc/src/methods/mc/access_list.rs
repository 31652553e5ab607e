//! The access list of a call (EIP-2930).

use chain::call::AccessListOutcome;
use serde::Serialize;

use super::calls::call_request;
use super::lookup::at_state;
use super::overrides::{BlockOverrides, StateOverrides};
use super::request::CallObject;
use crate::budget::query_limit;
use crate::error::RpcResult;
use crate::ethereum_texts::ethereum_text;
use crate::json::JsonOf;
use crate::modules::NameStyle;
use crate::node::Node;
use crate::objects::ShownAccessList;
use crate::table::Method;
use crate::types::{BlockRef, Quantity};
use crate::wire_type::{Described, WireType};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::heavy(
            "mc_createAccessList",
            ["call", "block", "stateOverrides", "blockOverrides"],
            create_access_list,
        )
        .summary(
            "Returns the accounts and slots that a call touches, as an access list (EIP-2930), and the gas \
             that the call uses with it. The default block is the pending block. It is an error where the \
             network's rules know no access lists.",
        ),
    ]
}

/// The accounts and slots that a call touches, as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CreatedAccessList<'a> {
    access_list: ShownAccessList<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    gas_used: Quantity,
}

impl Described for CreatedAccessList<'_> {
    const TYPE: WireType = WireType::Named("CreatedAccessList");
}

/// `mc_createAccessList`. A call that fails has a list, too: up to where it fails.
fn create_access_list(
    node: &Node,
    (call, at, state, block): (CallObject, Option<BlockRef>, StateOverrides, BlockOverrides),
    name_style: NameStyle,
) -> RpcResult<JsonOf<CreatedAccessList<'static>>> {
    let request = call_request(node, call, state, block)?;
    let view = node.view()?;
    let at = at.unwrap_or(BlockRef::Pending);
    let AccessListOutcome {
        access_list,
        gas_used,
        failure,
    } = at_state(node, &view, at, |place| {
        view.create_access_list(place, &request, query_limit(node.settings.call_timeout))
    })?;
    let failure = failure.map(|text| match name_style {
        NameStyle::Native => text,
        NameStyle::Ethereum => ethereum_text(&text).unwrap_or(text),
    });
    JsonOf::write(&CreatedAccessList {
        access_list: ShownAccessList(&access_list),
        error: failure.as_deref(),
        gas_used: Quantity(gas_used),
    })
}
