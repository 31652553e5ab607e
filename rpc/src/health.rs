//! The state of the node for monitoring tools, `GET /health`, and whether it should get requests,
//! `GET /ready`.

use std::time::Duration;

use serde::Serialize;

use crate::error::RpcResult;

/// The state of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Number of the head block.
    pub head: u64,
    /// Seconds since the head block's timestamp.
    pub age: u64,
    /// Connected peers.
    pub peers: u64,
    /// Whether the node is downloading the chain.
    pub syncing: bool,
}

/// Whether a balancer should send requests to this node, and why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Readiness {
    /// Whether it should.
    pub ready: bool,
    /// The reason why it should not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The state of the node.
    #[serde(flatten)]
    pub health: Health,
}

impl Health {
    /// A node that downloads the chain, or whose head is older than `age_max`, is not ready.
    pub(crate) fn readiness(self, age_max: Duration) -> Readiness {
        let age_max = age_max.as_secs();
        let reason = if self.syncing {
            Some("the node downloads the chain".to_owned())
        } else {
            let old = |before| {
                let age = self.age;
                format!("{before}the head is old: got {age} seconds, expected at most {age_max}")
            };
            (self.age > age_max).then(|| match self.peers {
                0 => old("there are no peers, so no blocks come; "),
                _ => old(""),
            })
        };
        Readiness {
            ready: reason.is_none(),
            reason,
            health: self,
        }
    }

    pub(crate) fn to_json(self) -> String {
        serde_json::to_string(&self).expect("numbers and a Boolean can always be written")
    }
}

impl Readiness {
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts can always be written")
    }
}

/// A context that can report its state.
pub trait Healthy {
    /// The state now.
    ///
    /// # Errors
    /// If the chain cannot be read.
    fn health(&self) -> RpcResult<Health>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_behind_is_not_ready() {
        let health = |age, syncing| Health {
            head: 7,
            age,
            peers: 1,
            syncing,
        };
        let ready = |age, syncing| health(age, syncing).readiness(Duration::from_secs(60));
        assert_eq!(ready(60, false).reason, None);
        assert!(ready(60, false).ready && !ready(61, false).ready && !ready(0, true).ready);
        let alone = Health {
            peers: 0,
            ..health(61, false)
        };
        let reason = alone.readiness(Duration::from_secs(60)).reason;
        assert_eq!(
            reason.as_deref(),
            Some(
                "there are no peers, so no blocks come; the head is old: got 61 seconds, expected at most 60"
            )
        );
        let json = serde_json::to_value(ready(61, false)).expect("JSON");
        let reason = "the head is old: got 61 seconds, expected at most 60";
        let expected = serde_json::json!({"ready": false, "reason": reason, "head": 7, "age": 61, "peers": 1, "syncing": false});
        assert_eq!(json, expected);
    }
}
