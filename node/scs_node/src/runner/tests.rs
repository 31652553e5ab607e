//! Contracts that give an SCS a role which it has not asked for, and messages that leave an SCS.

use std::path::Path;

use chain::import::StateRetention;
use microchain::contract::{ContractRole, ContractStatus, Rewards};
use microchain::{Action, ContractState, MemberMessage, MicroChainSetup};
use rpc::MicroChains;
use scs_service::MessageKind;

use super::*;
use crate::admission::JoinMode;
use crate::base::BaseReading;

/// The most MicroChains of the SCS.
const CAPABILITY: usize = 3;

fn config(directory: &Path) -> ScsNodeConfig {
    ScsNodeConfig {
        vnode: "127.0.0.1:9".to_owned(),
        tls: None,
        chain_id: 100,
        key: SecretKey::from_bytes(&[7; 32]).expect("a key"),
        directory: directory.to_owned(),
        period_secs: 1,
        beneficiary: Address::ZERO,
        bond_max: U256::MAX,
        reward_min: U256::ZERO,
        capability: CAPABILITY,
        chains: BTreeSet::new(),
        // The code of the contracts here is none.
        join: JoinRules {
            mode: JoinMode::Any,
            ..JoinRules::default()
        },
        confirmations: 12,
        states: StateRetention::Archive,
        blocks: None,
        checks: None,
        reconnect_max: Duration::from_secs(5),
    }
}

/// An SCS that has heard of head 100, without a connection.
fn runner(config: ScsNodeConfig) -> (Runner, Inboxes) {
    let id = ScsId(config.key.address());
    let (client, _events) = ScsClient::start(ScsClientConfig::new("127.0.0.1:9", id, 100));
    let (mut runner, inboxes) = Runner::on_folders(config, &client).expect("it opens");
    runner.head = 100;
    (runner, inboxes)
}

fn chain(mark: u8) -> Address {
    Address::repeat_byte(mark)
}

fn reading(role: ContractRole) -> Box<BaseReading> {
    Box::new(BaseReading {
        state: ContractState {
            role,
            registration: u64::from(role == ContractRole::Selectable),
            rewards: Rewards::default(),
            ..ContractState::default()
        },
        owner: chain(9),
        supply: U256::from(1000),
        penalty_bond: U256::from(1),
        withdrawal_min: U256::from(1),
        pool: chain(8),
        code: B256::ZERO,
    })
}

/// The SCS reads that these contracts give it the role.
fn read(runner: &mut Runner, marks: std::ops::RangeInclusive<u8>, role: ContractRole) {
    for mark in marks {
        runner.followed.entry(chain(mark)).or_default();
        runner.use_reading(chain(mark), *reading(role));
    }
}

/// The folders of MicroChains in a data directory.
fn folder_count(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).expect("readable");
    entries.flatten().filter(|entry| entry.path().is_dir()).count()
}

#[tokio::test]
async fn contracts_of_strangers_get_nothing() {
    let home = tempfile::tempdir().expect("a folder");
    let (mut runner, _inboxes) = runner(config(home.path()));
    for role in [ContractRole::Member, ContractRole::Monitor, ContractRole::Backup] {
        read(&mut runner, 1..=200, role);
        assert_eq!((runner.engine_count(), runner.followed.len()), (0, 0), "{role:?}");
    }
    assert_eq!(folder_count(home.path()), 0);
    assert!(runner.served.gas_facts(&chain(1)).members == 0 && runner.registered.is_empty());
}

#[tokio::test]
async fn an_scs_serves_where_it_has_registered_up_to_its_capability() {
    let home = tempfile::tempdir().expect("a folder");
    let chains = BTreeSet::from([chain(100)]);
    let named = ScsNodeConfig {
        chains,
        ..config(home.path())
    };
    let (mut first, mut inboxes) = runner(named.clone());
    // Registrations whose answers are not known yet count.
    read(&mut first, 1..=9, ContractRole::Selectable);
    for mark in 1..=9 {
        let plan = JoinPlan {
            chain: chain(mark),
            is_backup: false,
            bond: U256::from(1),
            pool: chain(8),
            since: 0,
        };
        let pool = PoolReading {
            code: B256::ZERO,
            bond: U256::from(20),
            locked: U256::ZERO,
        };
        first.register(plan, Ok(pool));
    }
    let mut sent = 0;
    while inboxes.call_orders.try_recv().is_ok() {
        sent += 1;
    }
    assert_eq!((sent, first.registered.len()), (CAPABILITY, CAPABILITY));
    read(&mut first, 1..=9, ContractRole::Member);
    assert_eq!(first.engine_count(), CAPABILITY);
    read(&mut first, 100..=100, ContractRole::Monitor);
    assert_eq!(first.engine_count(), CAPABILITY, "there is no place for it");
    drop(first);
    // After a start the chains with a registration are opened, and no others.
    let other = MicroChainSetup {
        address: chain(0),
        owner: chain(9),
        supply: U256::from(1000),
        period_secs: 1,
        chain_id: 100,
        withdrawal_min: U256::from(1),
    };
    Folders::open(home.path())
        .expect("a folder")
        .make(&other)
        .expect("writable");
    assert_eq!(folder_count(home.path()), CAPABILITY + 1);
    let few = ScsNodeConfig {
        capability: CAPABILITY - 1,
        ..named.clone()
    };
    for (config, expected) in [(named, CAPABILITY), (few, CAPABILITY - 1)] {
        let (again, _inboxes) = runner_when_free(config).await;
        let open: Vec<_> = again
            .followed
            .iter()
            .filter(|(_, one)| one.engine.is_some())
            .collect();
        assert_eq!(open.len(), expected);
        assert!(open.iter().all(|(chain, _)| again.registered.contains(chain)));
        assert!(
            again.followed.contains_key(&chain(100)),
            "the operator has named it"
        );
    }
}

#[tokio::test]
async fn the_monitor_of_a_named_chain_serves_it() {
    let home = tempfile::tempdir().expect("a folder");
    let named = ScsNodeConfig {
        chains: BTreeSet::from([chain(100)]),
        ..config(home.path())
    };
    let (mut runner, _inboxes) = runner(named);
    read(&mut runner, 90..=110, ContractRole::Monitor);
    assert_eq!((runner.engine_count(), folder_count(home.path())), (1, 1));
    // Without a role, it goes on looking: the notice of the registration may get lost.
    let named = ScsNodeConfig {
        chains: BTreeSet::from([chain(101)]),
        ..config(&home.path().join("other"))
    };
    let (mut waiting, _inboxes) = self::runner(named);
    read(&mut waiting, 101..=102, ContractRole::None);
    assert_eq!(waiting.due_at_head(), [chain(101)]);
    assert_eq!(runner.followed.keys().copied().collect::<Vec<_>>(), [chain(100)]);
}

#[tokio::test]
async fn an_scs_that_has_lost_its_list_serves_where_it_has_signed() {
    let home = tempfile::tempdir().expect("a folder");
    let (mut first, _inboxes) = runner(config(home.path()));
    for mark in [1, 2] {
        assert!(first.note_registration(chain(mark)));
    }
    read(&mut first, 1..=2, ContractRole::Member);
    // One of the MicroChains starts, with this SCS as its only member.
    let started = ContractState {
        role: ContractRole::Member,
        members_min: 1,
        members: vec![first.id],
        last_flush: Some(50),
        base_block: 100,
        turns: vec![200],
        ..ContractState::default()
    };
    first.give(chain(1), Event::Contract(Box::new(started)));
    let reader = first.served.chain(&chain(1)).expect("it is served");
    for _ in 0..1000 {
        if reader.head().expect("readable") > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(reader.head().expect("readable") > 0, "a block of its own");
    drop((first, reader));
    std::fs::remove_file(home.path().join("registered.json")).expect("it is there");
    for _ in 0..2 {
        let (again, _inboxes) = runner_when_free(config(home.path())).await;
        assert_eq!(again.registered, [chain(1)]);
        assert_eq!(again.served.chains(), [chain(1)]);
    }
}

#[tokio::test]
async fn a_microchain_that_has_ended_is_not_listed_and_takes_no_place() {
    let home = tempfile::tempdir().expect("a folder");
    let (mut first, _inboxes) = runner(config(home.path()));
    let all = 1..=2 * CAPABILITY as u8 + 1;
    let listed = |runner: &Runner| runner.served.chains().len();
    for mark in all.clone() {
        assert!(first.note_registration(chain(mark)));
        read(&mut first, mark..=mark, ContractRole::Member);
        assert_eq!((first.engine_count(), listed(&first)), (1, 1), "{mark}");
        // The flush that closes it has released all.
        let mut closed = *reading(ContractRole::None);
        closed.state.status = ContractStatus::Closed;
        first.use_reading(chain(mark), closed);
        assert_eq!((first.engine_count(), listed(&first)), (0, 0), "{mark}");
    }
    let is_read = |runner: &Runner, mark: u8| runner.served.chain(&chain(mark)).is_some();
    let readable = |runner: &Runner| all.clone().filter(|mark| is_read(runner, *mark)).count();
    assert_eq!(readable(&first), CAPABILITY);
    read(&mut first, 100..=100, ContractRole::None);
    assert!(first.note_registration(chain(100)));
    read(&mut first, 100..=100, ContractRole::Member);
    drop(first);
    let (again, _inboxes) = runner_when_free(config(home.path())).await;
    assert_eq!(again.served.chains(), [chain(100)]);
    assert_eq!((again.engine_count(), readable(&again)), (1, CAPABILITY));
}

#[tokio::test]
async fn strangers_take_turns_and_messages_do_not_bring_them_back() {
    let home = tempfile::tempdir().expect("a folder");
    let (mut runner, _inboxes) = runner(config(home.path()));
    let own = chain(250);
    assert!(runner.note_registration(own) && runner.follow(own));
    for mark in 1..=100 {
        assert!(runner.follow(chain(mark)));
    }
    let mut read = BTreeMap::<_, usize>::new();
    for _ in 0..25 {
        let due = runner.due_at_head();
        assert!(due.len() <= 33, "{}", due.len());
        for chain in due {
            *read.entry(chain).or_default() += 1;
        }
    }
    assert_eq!(read.remove(&own), Some(25), "an own one is read at each head");
    assert_eq!(read.len(), 100);
    assert!(read.values().all(|count| *count == 8), "{read:?}");
    self::read(&mut runner, 1..=100, ContractRole::Member);
    assert!(!runner.follow_again(chain(1)), "a message does not bring it back");
    assert!(runner.follow_again(chain(101)), "of this one nothing is known");
    assert!(runner.follow(chain(1)), "a notice does");
}

#[tokio::test]
async fn answers_to_strangers_hold_up_no_block_and_take_little_memory() {
    let home = tempfile::tempdir().expect("a folder");
    let (runner, mut inboxes) = runner(config(home.path()));
    let send = |status, receiver, bytes| {
        let message = MemberMessage {
            status,
            sender: runner.id,
            receiver,
            payload: vec![1; bytes].into(),
        };
        runner.act(EngineActions {
            chain: chain(1),
            actions: vec![Action::Send(message)],
        });
    };
    const ANSWER: i32 = 2;
    const BLOCK: i32 = 64;
    for mark in 1..=200 {
        send(ANSWER, Some(chain(mark)), 3 << 20);
    }
    send(BLOCK, None, 2 << 20);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        let next = inboxes.broadcasts.next().await.expect("a message");
        let MessageKind::Broadcast(status) = next.kind else {
            panic!("{:?}", next.kind)
        };
        statuses.push(status.number());
    }
    assert_eq!(statuses, [BLOCK, ANSWER, ANSWER]);
    // No more than these had room. Now there is room again.
    send(ANSWER, Some(chain(201)), 3 << 20);
    let next = inboxes.broadcasts.next().await.expect("a message");
    assert_eq!(next.receiver.map(|receiver| receiver.address), Some(chain(201)));
}

/// An SCS whose stores may still be held by engines that end.
async fn runner_when_free(config: ScsNodeConfig) -> (Runner, Inboxes) {
    let id = ScsId(config.key.address());
    let (client, _events) = ScsClient::start(ScsClientConfig::new("127.0.0.1:9", id, 100));
    for _ in 0..1000 {
        match Runner::on_folders(config.clone(), &client) {
            Ok(opened) => return opened,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    panic!("the stores are not free");
}
