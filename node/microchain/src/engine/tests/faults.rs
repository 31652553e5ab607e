//! SCSs that lie: a wrong state root, two blocks in a turn, no signature, endless messages.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use chain::application::BlockExtra;
use primitives::{B256, Block, U256};
use store::{Medium, Store, StoreMedia, StoreOptions};

use super::world::{World, key};
use crate::block::sign_header;
use crate::event::{Event, MemberMessage};
use crate::message::{self, PeerContent};

fn block_of(message: &MemberMessage) -> Option<Block> {
    match PeerContent::decode(message.status, &message.payload) {
        Ok(Some(PeerContent::Block(block))) => Some(*block),
        _ => None,
    }
}

/// Lets SCS 2 change each block that it sends, and sign it again.
fn lying(world: &mut World, change: impl Fn(&mut Block) + 'static) {
    let chain = world.setup.address;
    let (liar, key) = (world.id(2), key(3));
    world.filter = Some(Box::new(move |from, message| {
        if let Some(mut block) = block_of(message).filter(|_| from == 2) {
            change(&mut block);
            sign_header(&mut block.header, &chain, &key).unwrap();
            *message = PeerContent::Block(Box::new(block)).message(liar, None);
        }
        true
    }));
}

#[test]
fn a_claim_of_one_member_keeps_no_backup_out() {
    const HUGE: u64 = 1 << 40;
    let mut world = World::new(3, 1);
    world.kill(3);
    let mut world = world.with_dapp_base();
    world.run_slots(300);
    let (chain, liar, key) = (world.setup.address, world.id(2), key(3));
    // The third member claims a huge head, and answers each request at once with block 1.
    world.filter = Some(Box::new(move |from, message| {
        if from != 2 {
            return true;
        }
        let receiver = message.receiver;
        match PeerContent::decode(message.status, &message.payload) {
            Ok(Some(PeerContent::State { mut state, .. })) => {
                state.number += HUGE;
                *message = message::signed_state(state, &chain, &key).message(liar, None);
            }
            Ok(Some(PeerContent::SyncAnswer(mut blocks))) => {
                blocks.truncate(1);
                *message = PeerContent::SyncAnswer(blocks).message(liar, receiver);
            }
            _ => {}
        }
        true
    }));
    world.start(3);
    world.run_slots(60);
    let heads = [0, 3].map(|place| world.reader(place).head().unwrap().number);
    assert!(heads[0] > 300 && heads[1] + 3 >= heads[0], "{heads:?}");
    world.base.backups.push(world.id(3));
    world.run_until(400, "the backup has joined", |world| {
        world.base.members.len() == 4
    });
}

#[test]
fn a_wrong_state_root_is_refused_and_its_producer_reported() {
    let mut world = World::new(4, 0).with_dapp_base();
    world.deliver();
    let before = world.agreed(0);
    lying(&mut world, |block| block.header.state_root = B256::repeat_byte(1));
    world.run_until(20, "all have noticed it", |world| {
        let accuses = |place: usize| world.engine(place).accused() == [world.id(2)];
        [0, 1, 3].into_iter().all(accuses)
    });
    let heads = [0, 1, 3].map(|place| world.reader(place).head().unwrap());
    assert!(heads.iter().all(|head| head == &heads[0]));
    let reader = world.reader(0);
    for number in before + 1..=heads[0].number {
        let producer = reader.block(number).unwrap().unwrap().record.header.beneficiary;
        assert_ne!(producer, world.id(2));
    }
    // The member loses its place at a flush.
    world.run_until(300, "the liar is removed", |world| world.base.members.len() == 3);
    assert!(!world.base.members.contains(&world.id(2)));
    world.run_until(300, "the others go on", |world| world.base.flushes >= 2);
}

#[test]
fn two_blocks_of_a_slot_are_proof() {
    let mut world = World::new(4, 0).with_dapp_base();
    world.run_slots(3);
    // One half of the network gets another block than the other half.
    let chain = world.setup.address;
    let liar = world.id(2);
    let second: Rc<RefCell<Option<MemberMessage>>> = Rc::default();
    let made = second.clone();
    world.filter = Some(Box::new(move |from, message| {
        if let Some(mut block) = block_of(message).filter(|_| from == 2) {
            let mut extra = BlockExtra::decode(&block.header.extra_data).unwrap();
            extra.base += 1;
            block.header.extra_data = extra.encode(&[0; 65]);
            sign_header(&mut block.header, &chain, &key(3)).unwrap();
            *made.borrow_mut() = Some(PeerContent::Block(Box::new(block)).message(liar, None));
        }
        true
    }));
    world.run_until(8, "the liar has signed", |_| second.borrow().is_some());
    let other = second.borrow_mut().take().unwrap();
    world.give(0, Event::Message(other));
    world.deliver();
    for place in [0, 1, 3] {
        assert_eq!(world.engine(place).accused(), [liar], "{place}");
    }
    world.filter = None;
    world.run_slots(12);
    world.agreed(1);
}

#[test]
fn unsigned_blocks_and_foreign_ones_do_nothing() {
    let mut world = World::new(3, 0).with_dapp_base();
    world.run_slots(2);
    let reader = world.reader(0);
    let head = reader.head().unwrap();
    let stored = reader.block(head.number).unwrap().unwrap();
    let mut header = stored.record.header;
    header.parent_hash = head.hash;
    header.number += 1;
    header.timestamp += 10;
    let send = |world: &mut World, header: primitives::Header| {
        let block = Block {
            header,
            ..Default::default()
        };
        let message = PeerContent::Block(Box::new(block)).message(world.id(1), None);
        world.give(0, Event::Message(message));
    };
    // A slot in which SCS 0 makes no block itself.
    world.now_ms += 10_000;
    if (world.now_ms / 10_000).is_multiple_of(3) {
        world.now_ms += 10_000;
    }
    send(&mut world, header.clone());
    // Signed by somebody who is no member.
    for byte in 1..=4 {
        let mut foreign = header.clone();
        foreign.beneficiary = key(9).address();
        sign_header(&mut foreign, &world.setup.address, &key(9)).unwrap();
        foreign.timestamp += 10 * byte;
        send(&mut world, foreign);
    }
    assert_eq!(reader.head().unwrap(), head);
    assert!(world.engine(0).accused().is_empty());
    world.run_slots(6);
    world.agreed(1);
}

#[test]
fn endless_messages_are_bounded() {
    let mut world = World::new(3, 0).with_dapp_base();
    let now = world.now_ms;
    let mut answers = 0;
    let genesis = world.reader(0).block(0).unwrap().unwrap().hash;
    for round in 0..2000u64 {
        let request = PeerContent::SyncRequest {
            known: vec![genesis],
            count: u64::MAX,
        };
        let sender = key(1 + (round % 200) as u8).address();
        let message = request.message(sender, Some(world.id(0)));
        let engine = world.scs[0].engine.as_mut().unwrap();
        answers += engine.handle(now, Event::Message(message)).unwrap().len();
    }
    assert!((1..=32).contains(&answers), "{answers}");
    // Blocks without a parent, far ahead of the clock.
    for round in 0..500u64 {
        let block = Block {
            header: primitives::Header {
                number: round + 1000,
                parent_hash: B256::from(U256::from(round)),
                timestamp: u64::MAX - round,
                ..Default::default()
            },
            ..Default::default()
        };
        let message = PeerContent::Block(Box::new(block)).message(world.id(1), None);
        world.give(0, Event::Message(message));
    }
    for status in -1..130 {
        for payload in [&b""[..], b"\xc0", b"\xc4\x83mc1", &[0xff; 3000]] {
            let message = MemberMessage {
                status,
                sender: world.id(1),
                receiver: None,
                payload: payload.to_vec().into(),
            };
            world.give(0, Event::Message(message));
        }
    }
    world.run_slots(6);
    world.agreed(1);
    assert!(message::STATUSES.contains(&message::STATE));
}

#[test]
fn endless_proposals_cost_their_author_its_place() {
    let mut world = World::new(3, 0).with_dapp_base();
    // SCS 0 proposes rewards of its own in each turn, and nobody else votes for them.
    let liar = world.base.members[0];
    let place = (0..3).find(|place| world.id(*place) == liar).unwrap();
    world.kill(place);
    for round in 0..6u8 {
        world.run_until(200, "its turn", |world| {
            let state = world.base.state_for(&liar, Some(0)).unwrap();
            let place = state.place_of(&liar);
            place.is_none_or(|place| state.turns[place as usize] <= world.base.block)
        });
        let state = world.base.state_for(&liar, Some(0)).unwrap();
        let Some(place) = state.place_of(&liar) else { break };
        let proposal = crate::contract::BaseCall::CreateProposal {
            place,
            last_approved: world.base.approved.hash,
            hash: B256::repeat_byte(round + 1),
            block: B256::ZERO,
            start: world.base.approved.end + 1,
            end: world.base.approved.end + 2,
            distribution: vec![U256::MAX >> 8; state.members.len()],
            bad_actors: Vec::new(),
            via: liar,
            redemptions: 0,
        };
        world.base.carry_out(liar, &proposal);
        let before = world.base.flushes;
        world.run_until(200, "the others flush", |world| world.base.flushes > before);
    }
    let rewarded: U256 = world.base.rewarded.iter().map(|(_, reward)| *reward).sum();
    assert!(rewarded < U256::from(1_000_000_000u64));
    assert!(
        !world.base.members.contains(&liar),
        "{:?}",
        world.base.performance
    );
}

/// A disk in memory that can be full.
#[derive(Debug)]
struct SmallDisk {
    bytes: Mutex<Vec<u8>>,
    is_full: Arc<AtomicBool>,
}

impl SmallDisk {
    fn change(&self, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        change(&mut self.bytes.lock().unwrap());
        Ok(())
    }
}

impl Medium for SmallDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes.lock().unwrap();
        let from = bytes.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(|bytes| {
            let end = offset as usize + data.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[offset as usize..end].copy_from_slice(data);
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(|bytes| bytes.resize(len as usize, 0))
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_stops_one_member_until_there_is_space() {
    let mut world = World::new(3, 0);
    let is_full = Arc::new(AtomicBool::new(false));
    let disk = || {
        Arc::new(SmallDisk {
            bytes: Mutex::default(),
            is_full: is_full.clone(),
        })
    };
    let media = StoreMedia {
        database: disk(),
        log: disk(),
        blocks: disk(),
    };
    world.kill(2);
    world.scs[2].store = Store::on_media(&media, &StoreOptions::default()).unwrap();
    world.scs[2].disk_may_fail = true;
    world.start(2);
    let mut world = world.with_dapp_base();
    world.run_slots(3);
    let before = world.agreed(0);
    is_full.store(true, Ordering::Relaxed);
    world.run_slots(9);
    let others = world.reader(0).head().unwrap().number;
    assert_eq!(others, before + 6, "the full one makes no block");
    is_full.store(false, Ordering::Relaxed);
    world.run_slots(9);
    assert!(world.agreed(0) >= others + 7, "it makes blocks again");
}
