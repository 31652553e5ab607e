//! The progress of the synchronization as a row at the end of the terminal, with an estimate of the
//! time that is left. Elsewhere the log has lines about it.

use std::time::{Duration, Instant};

use daemon::Screen;
use network::{NetworkHandle, SnapFigures, SnapPhase, StateProgress, SyncState, time_text};

use crate::sync_rate::SyncRate;

/// Time between two pictures of the row.
const DRAW_INTERVAL: Duration = Duration::from_millis(250);
/// Width of the bar in columns.
const BAR_WIDTH: u64 = 24;

/// Shows the row whenever the node synchronizes, for ever. Does nothing if the screen shows no
/// rows.
pub(crate) async fn show(screen: &Screen, network: &NetworkHandle) {
    if !screen.is_live() {
        return std::future::pending().await;
    }
    let mut rate = SyncRate::default();
    loop {
        tokio::time::sleep(DRAW_INTERVAL).await;
        let progress = network.sync_progress();
        match progress.started_at {
            Some(first) => {
                let rate = rate.follow(Instant::now(), progress.head);
                let rows = [row(&progress, first, rate)];
                let state = progress.state.map(|state| state_row(&state));
                screen.draw(&rows.into_iter().chain(state).collect::<Vec<_>>());
            }
            None => {
                rate = SyncRate::default();
                screen.draw(&[]);
            }
        }
    }
}

/// The text of the row. `first` is the head at which the synchronization began, `rate` are blocks a
/// second.
fn row(progress: &SyncState, first: u64, rate: f64) -> String {
    let SyncState {
        head,
        best_header,
        highest,
        ..
    } = *progress;
    let whole = highest.saturating_sub(first).max(1);
    let done = head.saturating_sub(first).min(whole);
    let filled = usize::try_from(done * BAR_WIDTH / whole).unwrap_or(0);
    let empty = usize::try_from(BAR_WIDTH).unwrap_or(0).saturating_sub(filled);
    let bar = "=".repeat(filled) + &" ".repeat(empty);
    let percent = done as f64 * 100.0 / whole as f64;
    let left = time_text(highest.saturating_sub(head) as f64 / rate);
    format!(
        "synchronizing [{bar}] block {head} of {highest}, {percent:.1} %, headers {best_header}, \
         {rate:.0} blocks/s, left {left}"
    )
}

/// The text of the row about the state that is fetched.
fn state_row(state: &StateProgress) -> String {
    let SnapFigures {
        accounts,
        slots,
        codes,
        bytes,
        healed,
        ..
    } = state.figures;
    let filled = state.loaded as usize * BAR_WIDTH as usize / 1000;
    let bar = "=".repeat(filled) + &" ".repeat((BAR_WIDTH as usize).saturating_sub(filled));
    let step = match state.phase {
        SnapPhase::Load => "ranges",
        SnapPhase::Build => "tries",
        SnapPhase::Heal => "changes",
        SnapPhase::Done => "whole",
    };
    format!(
        "state of block {} [{bar}] {:.1} %, {step}, {accounts} accounts, {slots} slots, {codes} codes, \
         {} MiB, {healed} nodes of changes, {} peers",
        state.pivot,
        f64::from(state.loaded) / 10.0,
        bytes >> 20,
        state.peers
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_has_a_bar_and_an_estimate() {
        let progress = SyncState {
            started_at: Some(1000),
            head: 1500,
            best_header: 2900,
            highest: 3000,
            missing: 1400,
            far_behind: true,
            state: None,
        };
        assert_eq!(
            row(&progress, 1000, 100.0),
            "synchronizing [======                  ] block 1500 of 3000, 25.0 %, headers 2900, \
             100 blocks/s, left 15 s"
        );
        let nothing = row(&SyncState::default(), 0, 0.0);
        assert!(nothing.ends_with("left unknown"), "{nothing}");
    }

    #[test]
    fn the_row_of_a_state_has_its_counts() {
        let state = StateProgress {
            figures: SnapFigures {
                accounts: 12,
                slots: 34,
                codes: 5,
                bytes: 7 << 20,
                healed: 6,
                ..SnapFigures::default()
            },
            loaded: 500,
            peers: 3,
            pivot: 99,
            ..StateProgress::default()
        };
        assert_eq!(
            state_row(&state),
            "state of block 99 [============            ] 50.0 %, ranges, 12 accounts, 34 slots, 5 codes, \
             7 MiB, 6 nodes of changes, 3 peers"
        );
    }
}
