//! The attack on the synchronization: claims of heavier chains whose headers come slowly.

use std::time::{Duration, Instant};

use network::testing::{Entropy, HeadersRequest, HeadersStart, PeerMessage};
use primitives::{B256, Header, U256};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::gossip::AttackMaterial;
use super::played::{BLOCK_0, PlayedNode};
use super::scene::{AttackScene, AttackTarget};
use super::{AttackDone, HonestTimes};
use crate::Failure;

/// Identities that claim heavier chains.
const LIARS: u32 = 2;
/// Headers of a claimed chain.
const FABRICATED: u64 = 2000;
/// The time that an attacker takes for an answer. A node waits for longer.
const ANSWER_TIME: Duration = Duration::from_millis(950);
/// Longest time for the blocks of the honest node.
const SYNC_MAX: Duration = Duration::from_secs(8);

/// Headers on block 0 without seals, lowest first, with block 0.
fn fabricated(genesis: &Header, mark: u8) -> Vec<(B256, Header)> {
    let mut headers = vec![(genesis.hash(), genesis.clone())];
    for number in 1..=FABRICATED {
        let (parent_hash, parent) = &headers[headers.len() - 1];
        let header = Header {
            parent_hash: *parent_hash,
            number,
            timestamp: parent.timestamp + 1,
            mix_hash: B256::repeat_byte(mark),
            ..genesis.clone()
        };
        headers.push((header.hash(), header));
    }
    headers
}

/// The first header that answers `request`.
fn first_answer(headers: &[(B256, Header)], request: &HeadersRequest) -> Vec<Header> {
    let found = match request.start {
        HeadersStart::Number(number) => headers.get(usize::try_from(number).unwrap_or(usize::MAX)),
        HeadersStart::Hash(wanted) => headers.iter().find(|(hash, _)| *hash == wanted),
    };
    found.map(|(_, header)| header.clone()).into_iter().collect()
}

async fn claim_until_dropped(
    target: &AttackTarget,
    liar: u32,
    headers: &[(B256, Header)],
    count: &mut u64,
) -> Result<(), Failure> {
    let mut entropy = Entropy::from_system()?;
    let source = target.sources.attacker(liar);
    let mut peer = PlayedNode::dial(&target.contact, target.family, source, &mut entropy).await?;
    let (head, _) = headers.last().ok_or("no headers")?;
    peer.greet(|status| {
        status.head = *head;
        status.total_difficulty = status.total_difficulty.saturating_add(U256::from(1_u64 << 40));
    })
    .await?;
    loop {
        if let PeerMessage::GetBlockHeaders(id, request) = peer.next().await? {
            sleep(ANSWER_TIME).await;
            peer.send(&PeerMessage::BlockHeaders(id, first_answer(headers, &request)))?;
            *count += 1;
        }
    }
}

/// Claims heavier chains and gives a header at a time, while the honest node has blocks to give.
pub(super) async fn give_headers_slowly(
    scene: &AttackScene,
    material: &AttackMaterial,
    end: Instant,
) -> Result<AttackDone, Failure> {
    let target = scene.target();
    let honest = material.chain.as_ref().ok_or("no honest chain")?;
    let mut entropy = Entropy::from_system()?;
    let source = target.sources.attacker(LIARS);
    let mut asking = PlayedNode::join(&target.contact, target.family, source, &mut entropy).await?;
    let genesis = asking.header(BLOCK_0).await?;
    drop(asking);
    let mut attackers = JoinSet::new();
    for liar in 0..LIARS {
        let (target, genesis) = (target.clone(), genesis.clone());
        attackers.spawn(async move {
            let headers = fabricated(&genesis, 1 + liar as u8);
            let (mut count, mut source) = (0, liar);
            while Instant::now() < end {
                let left = end.saturating_duration_since(Instant::now());
                let visit = claim_until_dropped(&target, source, &headers, &mut count);
                if !matches!(timeout(left, visit).await, Ok(Ok(()))) {
                    // The node lets an address in again only after a while.
                    source += LIARS + 1;
                    sleep(Duration::from_millis(100)).await;
                }
            }
            count
        });
    }
    // The attackers come first.
    sleep(Duration::from_secs(2)).await;
    scene.connect_to(&honest.contact())?;
    let head = json!(honest.head().to_string());
    let took = scene.wait_for_head(&head, end.saturating_duration_since(Instant::now()));
    Ok(AttackDone {
        count: attackers.join_all().await.iter().sum(),
        judged: None,
        honest: Some(HonestTimes {
            what: "the time until the honest chain was there",
            missing: u64::from(took.is_none()),
            times: took.into_iter().collect(),
            median_max: SYNC_MAX,
        }),
    })
}
