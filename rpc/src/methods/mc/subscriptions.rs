//! Subscriptions: `mc_subscribe` and `mc_unsubscribe`, on connections that last.
//!
//! What there is to subscribe to and how it is told is in [`crate::subscriptions`].

use primitives::U256;

use crate::decode::{FromParam, json_type};
use crate::error::{RpcError, RpcResult};
use crate::json::Json;
use crate::logs_filter::LogCriteria;
use crate::node::Node;
use crate::params::Params;
use crate::subscriptions::{Heads, Logs, Pending, Session, Source, Syncing};
use crate::table::Method;
use crate::types::{DecodeError, Quantity};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::session("mc_subscribe", subscribe).says(
            "kind: String, details?: LogFilter|Boolean -> QUANTITY",
            "Begins to tell this connection of newHeads, logs, newPendingTransactions or syncing. \
             Of pending transactions a slow reader is told the last 65,536.",
        ),
        Method::session("mc_unsubscribe", |_, session, params| {
            let (Quantity(id),): (Quantity<U256>,) = params.parse()?;
            if u128::try_from(id).is_ok_and(|id| session.remove(id)) {
                Json::write(&true)
            } else {
                Err(RpcError::refused("subscription not found"))
            }
        })
        .says(
            "id: QUANTITY -> Boolean",
            "Ends a subscription of this connection.",
        ),
    ]
}

/// The second parameter, which the first one gives a meaning.
struct Details(String);

impl FromParam for Details {
    fn from_json(json: &str) -> Result<Self, DecodeError> {
        Ok(Self(json.to_owned()))
    }
}

/// `mc_subscribe`: the id that notifications will name.
fn subscribe(node: &Node, session: &Session, params: Params<'_>) -> RpcResult<Json> {
    let dialect = params.dialect();
    let (kind, details): (String, Option<Details>) = params.parse()?;
    let feeds = &node.feeds;
    let source: Box<dyn Source> = match kind.as_str() {
        "newHeads" => {
            none(details)?;
            Box::new(Heads::new(feeds)?)
        }
        "logs" => {
            let filter = details.map(|Details(json)| LogCriteria::from_json(&json));
            let filter = filter
                .transpose()
                .map_err(|reason| RpcError::invalid_argument(1, reason))?;
            let criteria = filter.unwrap_or_default();
            criteria.check_range(node.view()?.head_number())?;
            Box::new(Logs::new(feeds, criteria, dialect)?)
        }
        "newPendingTransactions" => {
            let full = details.map(|Details(json)| bool::from_json(&json));
            let full = full
                .transpose()
                .map_err(|reason| RpcError::invalid_argument(1, reason))?;
            Box::new(Pending::new(feeds, full.unwrap_or_default(), dialect)?)
        }
        "syncing" => {
            none(details)?;
            Box::new(Syncing::new(feeds)?)
        }
        _ => {
            return Err(RpcError::invalid_argument(
                0,
                "want one of newHeads, logs, newPendingTransactions, syncing",
            ));
        }
    };
    Json::write(&session.add(source, dialect)?)
}

/// Refuses a second parameter where the first needs none.
fn none(details: Option<Details>) -> RpcResult<()> {
    match details {
        None => Ok(()),
        Some(Details(json)) => Err(RpcError::invalid_argument(
            1,
            format_args!("want none, got {}", json_type(&json)),
        )),
    }
}
