//! Subscriptions: `mc_subscribe` and `mc_unsubscribe`, for connections that last.
//!
//! The kinds of subscriptions and how their notifications are sent are in [`crate::subscriptions`].

use std::time::Instant;

use daemon::ClientId;
use serde::Serialize;

use crate::decode::{FromParam, json_type};
use crate::error::{RpcError, RpcResult};
use crate::ids::NamedId;
use crate::logs_filter::{LogCriteria, LogFilter};
use crate::modules::NameStyle;
use crate::node::Node;
use crate::subscriptions::{
    HeadSource, MatchingLogs, MessageSubscriptions, NewHeads, NewWorkSource, PendingSource,
    SubscriptionSource, SyncSource,
};
use crate::table::Method;
use crate::types::{ParamError, Quantity};
use crate::wire_type::{Described, WireType};

/// The rows of this topic.
pub(super) fn methods() -> Vec<Method<Node>> {
    vec![
        Method::subscribing("mc_subscribe", ["kind", "details"], subscribe).summary(
            "Starts a subscription of newHeads, logs, newPendingTransactions, syncing or newWork on this \
             connection. New work is header hash, seed hash, boundary and number. If a client reads slowly, it gets only the last 65,536 pending \
             transactions.",
        ),
        Method::subscribing("mc_unsubscribe", ["id"], unsubscribe)
            .summary("Ends a subscription of this connection."),
    ]
}

/// The second parameter of `mc_subscribe`. Its meaning depends on the first parameter.
struct SubscriptionDetails(String);

impl FromParam for SubscriptionDetails {
    const TYPE: WireType = WireType::OneOf(&[<LogFilter as FromParam>::TYPE, <bool as FromParam>::TYPE]);

    fn from_json(json: &str) -> Result<Self, ParamError> {
        Ok(Self(json.to_owned()))
    }
}

impl SubscriptionDetails {
    /// Reads the details as a `T`.
    fn read<T: FromParam>(self) -> RpcResult<T> {
        T::from_json(&self.0).map_err(|reason| RpcError::invalid_argument(1, reason))
    }

    /// Refuses details of a subscription that has none.
    fn refuse(details: Option<Self>) -> RpcResult<()> {
        match details {
            None => Ok(()),
            Some(Self(json)) => Err(RpcError::invalid_argument(
                1,
                format_args!("got {}, expected nothing", json_type(&json)),
            )),
        }
    }
}

/// The id of a subscription, as QUANTITY text.
#[derive(Serialize)]
#[serde(transparent)]
struct SubscriptionId(String);

impl Described for SubscriptionId {
    const TYPE: WireType = <Quantity<u128> as Described>::TYPE;
}

/// `mc_subscribe`: the id that the notifications will carry.
fn subscribe(
    node: &Node,
    subscriptions: &MessageSubscriptions,
    (kind, details): (String, Option<SubscriptionDetails>),
    name_style: NameStyle,
    client: ClientId,
) -> RpcResult<SubscriptionId> {
    let feeds = &node.feeds;
    // Subscriptions and filters share the memory for criteria.
    node.filters.remove_idle(Instant::now());
    let source: Box<dyn SubscriptionSource> = match kind.as_str() {
        "newHeads" => {
            SubscriptionDetails::refuse(details)?;
            Box::new(HeadSource::new(feeds, client, NewHeads)?)
        }
        "logs" => {
            let criteria: Option<LogCriteria> = details.map(SubscriptionDetails::read).transpose()?;
            let criteria = criteria.unwrap_or_default();
            criteria.check_range()?;
            let logs = MatchingLogs { criteria, name_style };
            Box::new(HeadSource::new(feeds, client, logs)?)
        }
        "newPendingTransactions" => {
            let full: Option<bool> = details.map(SubscriptionDetails::read).transpose()?;
            let full = full.unwrap_or_default();
            Box::new(PendingSource::new(feeds, client, full, name_style)?)
        }
        "syncing" => {
            SubscriptionDetails::refuse(details)?;
            Box::new(SyncSource::new(feeds, client)?)
        }
        "newWork" => {
            SubscriptionDetails::refuse(details)?;
            node.beneficiary()?;
            Box::new(NewWorkSource::new(feeds, client)?)
        }
        _ => {
            return Err(RpcError::invalid_argument(
                0,
                format_args!(
                    "got {kind:?}, expected one of newHeads, logs, newPendingTransactions, syncing, newWork"
                ),
            ));
        }
    };
    subscriptions.add(source, name_style).map(SubscriptionId)
}

/// `mc_unsubscribe`: true. A subscription that does not exist is an error.
fn unsubscribe(
    _: &Node,
    subscriptions: &MessageSubscriptions,
    (NamedId(id),): (NamedId,),
    _: NameStyle,
) -> RpcResult<bool> {
    if id.is_some_and(|id| subscriptions.remove(id)) {
        Ok(true)
    } else {
        Err(RpcError::refused("subscription not found"))
    }
}
