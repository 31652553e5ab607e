//! The reasons for which miners get no work although they ask for it.

use std::time::Duration;

/// The reason why no work is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkPause {
    /// The network is not there. Blocks on a chain that nobody else knows are worth nothing.
    #[error(
        "{}: the head is block {head}, and others may be far ahead; \
         on a network without other nodes, --miner.alone gives work all the same",
        silence_text(*silence)
    )]
    NoPeers {
        /// The number of the head.
        head: u64,
        /// The time since a peer was there; `None` if there was none since the start of the node.
        silence: Option<Duration>,
    },
    /// Others have a longer chain.
    #[error("the chain is behind: the head is block {head}, and block {highest} is known of")]
    Behind {
        /// The number of the head.
        head: u64,
        /// The highest block that is known of. It is `head` if only a total difficulty is known.
        highest: u64,
    },
}

impl WorkPause {
    /// A word for programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NoPeers { .. } => "no peers",
            Self::Behind { .. } => "behind",
        }
    }
}

/// Says how long no peer was there, in the largest unit, rounded down.
fn silence_text(silence: Option<Duration>) -> String {
    let time = match silence.map(|silence| silence.as_secs()) {
        None => return "no peer yet".into(),
        Some(seconds @ 0..120) => format!("{seconds} s"),
        Some(seconds @ 120..7200) => format!("{} min", seconds / 60),
        Some(seconds @ 7200..172_800) => format!("{} h", seconds / 3600),
        Some(seconds) => format!("{} days", seconds / 86_400),
    };
    format!("no peer for {time}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reasons_name_what_is_missing() {
        let check = |pause: WorkPause, expected: &str| {
            let text = pause.to_string();
            assert!(text.starts_with(expected), "{text}");
        };
        let silent = |seconds| WorkPause::NoPeers {
            head: 7,
            silence: Some(Duration::from_secs(seconds)),
        };
        check(
            WorkPause::NoPeers {
                head: 0,
                silence: None,
            },
            "no peer yet: the head is block 0,",
        );
        check(silent(119), "no peer for 119 s: the head is block 7,");
        check(silent(7199), "no peer for 119 min:");
        check(silent(172_799), "no peer for 47 h:");
        check(silent(172_800), "no peer for 2 days:");
        check(
            WorkPause::Behind { head: 7, highest: 90 },
            "the chain is behind: the head is block 7, and block 90 is known of",
        );
    }
}
